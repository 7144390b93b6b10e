"""What a definition says, without what cannot change a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.core.closure import closure

MODULE = "import logging\nimport torch\nfrom torch import nn\nlog = logging.getLogger(__name__)\n"
FUNCTION = MODULE + "def make(n):\n{}\n    return nn.Linear(n, 2)\n"
METHOD = MODULE + "class Net(nn.Module):\n    def forward(self, x):\n{}\n        return x\ndef make(n):\n    return Net()\n"


def body(*lines: str) -> str:
    return FUNCTION.format("\n".join("    " + line for line in lines) or "    pass")


def method(*lines: str) -> str:
    return METHOD.format("\n".join("        " + line for line in lines) or "        pass")


def key(text: str, folder: Path) -> dict[str, str]:
    (folder / "m.py").write_text(text)
    return closure("m", "make", folder)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (body(), body("print('n is', n)")),
        (body(), body("print(f'n is {n}')")),
        (body(), body("log.info('n is %d', n)", "logging.debug('made')")),
        (body(), body("assert n > 0, 'n'")),
        (body(), body("assert isinstance(n, int) and n > 0")),
        (body(), body("'words'")),
        (body("a = n", "b = a"), body("c = n", "d = c")),
        (body("a = [i for i in range(n)]"), body("a = [k for k in range(n)]")),
        (body("for i in range(n):", "    n += i"), body("for step in range(n):", "    n += step")),
        (body("with open('x') as f:", "    n = f"), body("with open('x') as file:", "    n = file")),
        (body("f = lambda x: x + n"), body("g = lambda x: x + n")),
        (body("a = n"), body("a: int = n")),
        (body().replace("def make(n)", "def make(n: int) -> nn.Module"), body()),
        (body(), body().replace("from torch import nn", "import torch.nn as nn")),
        (body(), body().replace("from torch import nn", "").replace("nn.Linear", "torch.nn.Linear")),
        (body(), body().replace("from torch import nn", "from torch.nn import Linear as L").replace("nn.Linear", "L")),
        (method(), method("assert x.dim() == 4 and x.shape[1] == 3")),
        (method(), method("print(x.shape, x)")),
        (
            body(),
            "from dataclasses import dataclass, field\n"
            + body()
            + "@dataclass(frozen=True)\nclass A:\n    n: list = field(default_factory=list)\n",
        ),
        (body(), "import functools\n" + body() + "@functools.lru_cache(maxsize=None)\ndef other(n):\n    return n\n"),
        (body(), body() + "if __name__ == '__main__':\n    make(3)\n"),
        (body(), "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from collections.abc import Sequence\n" + body()),
    ],
)
def test_the_same(one: str, other: str, tmp_path: Path) -> None:
    assert key(one, tmp_path) == key(other, tmp_path)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (body(), body("print(n := 3)")),
        (body("a = [1]"), body("a = [1]", "print(a.pop())")),
        (body("a = [1]"), body("a = [1]", "log.info('%s', a.pop())")),
        (body("a = [1]"), body("a = [1]", "assert a.pop()")),
        (body(), body("print(n, file=open('x', 'w'))")),
        (body("a = n", "b = a", "n = b"), body("a = n", "b = a", "n = a")),
        (body("a = 1", "n = locals()['a']"), body("b = 1", "n = locals()['b']")),
        (body("a = n", "n = lambda: a"), body("a = n", "n = lambda a: a")),
        (body("def inner(x):", "    return x"), body("def inner(y):", "    return y")),
        (body("n = W") + "W = 1\n", body("W = 1", "n = W") + "W = 1\n"),
        (method(), method("assert x.sum() > 0")),  # asks for a value: the model could not be exported any more
        (method(), method("assert x > 0")),
        (method(), method("print(f'{x:.2f}')")),
        (body(), body() + "import mine\n@mine.register\ndef other(n):\n    return n\n"),
        (body(), body() + "class A:\n    log.setLevel(3)\n"),
        (body(), body() + "def other(n=torch.manual_seed(3)):\n    return n\n"),
        (body() + "make.x = 1\nmake.x = 2\n", body() + "make.x = 2\nmake.x = 1\n"),
        (body() + "A = 1\nB = A\nA = 2\n", body() + "A = 1\nA = 2\nB = A\n"),
        (body().replace("(n)", "(n: 4)") + "make.__annotations__\n", body().replace("(n)", "(n: 8)") + "make.__annotations__\n"),
        (body("from torch import nn as local", "n = local"), body("from numpy import nn as local", "n = local")),
        (body("print = n", "print(n)"), body("print = n")),
    ],
)
def test_another(one: str, other: str, tmp_path: Path) -> None:
    assert key(one, tmp_path) != key(other, tmp_path)
