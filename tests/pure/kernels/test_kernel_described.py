"""Parameters described beside the kernel: by a file, or by a directive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.core.kernel_files import KernelName, kernel_text
from laminar.kernels.arguments import arguments
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.described import with_parameters
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.rules import KernelError
from laminar.kernels.open_file import open_kernel

POINTERS = "void kernel(int i, int n, int m, const float *x, float *y) {\n    for (int k = 0; k < m; k++) y[i] += x[i][k];\n}\n"
BESIDE = '[x]\nshape = ["n", "m"]\n\n[y]\nmode = "out"\nshape = ["n"]\n'


def test_a_file_beside_it_says_shapes_and_modes(tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(POINTERS)
    with pytest.raises(KernelError, match="K04"):
        open_kernel(tmp_path / "sum.c")
    (tmp_path / "sum.params.toml").write_text(BESIDE)
    kernel = open_kernel(tmp_path / "sum.c")
    assert [(one.name, one.mode, len(one.of.shape)) for one in kernel.arrays] == [("x", "in", 2), ("y", "out", 1)]  # type: ignore[union-attr]
    called = arguments(kernel, {"x": np.ones((3, 4), np.float32)}, None, "sum.c")
    found = emulate(kernel, called.arrays, called.values, called.count)
    assert not found.findings and found.outputs["y"].tolist() == [4.0, 4.0, 4.0]


def test_the_key_has_what_is_described(tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(POINTERS)
    alone = kernel_text(tmp_path / "sum.c")
    (tmp_path / "sum.params.toml").write_text(BESIDE)
    assert kernel_text(tmp_path / "sum.c") != alone


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("[x", "sum.params.toml"),
        ("x = 1\n", "`x` is no table"),
        ('[x]\nkind = "in"\n', "`kind` of `x`"),
        ('[x]\nmode = "into"\n', "'into'"),
        ('[x]\nshape = "n"\n', "shape of `x`"),
        ("[x]\nshape = [true]\n", "shape of `x`"),
        ('[x]\nshape = ["n]["]\n', "brackets"),
        (BESIDE + '[z]\nshape = ["n"]\n', "`z` is described"),
        ('[x]\nshape = ["n", "nothing"]\n', "`nothing` is not declared"),
        ("[x]\nshape = [0]\n", "a size of `x` is `0`"),
        ('[x]\nshape = ["n", "m"]\nmode = "out"\n[y]\nshape = ["n"]\n', "two things"),
    ],
)
def test_mistakes_in_it_are_named(tmp_path: Path, beside: str, said: str) -> None:
    (tmp_path / "sum.c").write_text(POINTERS)
    (tmp_path / "sum.params.toml").write_text(beside)
    with pytest.raises(LaminarError) as error:
        open_kernel(tmp_path / "sum.c")
    assert said in error.value.message and error.value.hint


@pytest.mark.parametrize(
    ("beside", "place", "shown"),
    [
        ("# sizes\n[x", "sum.params.toml:2:3: ", "[x"),
        ("\nx = 1\n", "sum.params.toml:2:1: ", "x = 1"),
        ('[y]\nmode = "out"\n\n[x]\nmode = "into"\n', "sum.params.toml:5:1: ", 'mode = "into"'),
        (BESIDE + '[z]\nshape = ["n"]\n', "sum.params.toml:7:1: ", "[z]"),
        ('[x]\nmode = "in"\n  shape = ["n", "nothing"]\n', "sum.params.toml:3:3: ", '  shape = ["n", "nothing"]'),
        ("x = { shape = [0] }\n", "sum.params.toml:1:7: ", "x = { shape = [0] }"),
        ("y.shape = ['n']\nx.shape = ['n +']\n", "sum.params.toml:2:3: ", "x.shape = ['n +']"),
        ("[x]\nshape = ['n /* all */', 'm']\n", "sum.params.toml:2:1: ", "shape = ['n /* all */', 'm']"),
    ],
)
def test_mistakes_are_shown_where_they_are_in_that_file(tmp_path: Path, beside: str, place: str, shown: str) -> None:
    (tmp_path / "sum.c").write_text(POINTERS)
    (tmp_path / "sum.params.toml").write_text(beside)
    with pytest.raises(LaminarError) as error:
        open_kernel(tmp_path / "sum.c")
    message, line, caret = error.value.message.split("\n")
    assert message.startswith(place) and line == f"  {shown}" and caret.index("^") == int(place.split(":")[2]) + 1


def test_where_it_came_from_is_not_part_of_a_name() -> None:
    """Neither lines nor comments of that file."""
    texts = [with_parameters(POINTERS, beside, "sum.params.toml") for beside in (BESIDE, f"# sizes\n\n{BESIDE}")]
    assert texts[0] != texts[1] and KernelName.of(texts[0], "sum.c") == KernelName.of(texts[1], "sum.c")
    plain = POINTERS + "#pragma laminar parameter x [n][m]\n#pragma laminar parameter y out [n]\n"
    assert KernelName.of(texts[0], "sum.c") == KernelName.of(plain, "sum.c")


def test_mistakes_of_a_directive_are_shown_where_its_sizes_are() -> None:
    with pytest.raises(KernelError) as caught:
        read_kernel("#pragma laminar parameter y [0]\nvoid kernel(int i, int n, float *y) { y[i] = 1.0f; }\n")
    assert caught.value.at == (1, 29)


def test_a_directive_says_the_same() -> None:
    text = "#pragma laminar parameter y out [n]\nvoid kernel(int i, int n, float *y) { y[i] += 1.0f; }\n"
    assert read_kernel(text).arrays[0].mode == "out"
    for bad in ("y out", "y into [n]", "y [n", "9"):
        with pytest.raises(KernelError):
            read_kernel(text.replace("y out [n]", bad))
    with pytest.raises(KernelError, match="already"):
        read_kernel("#pragma laminar parameter y [n]\nvoid kernel(int i, int n, float y[n]) { y[i] = 1.0f; }\n")
