"""python:module:function: the project's own code, run in isolation; what it read and what it is made of are watched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from laminar.core.clock import FakeClock
from laminar.core.errors import LaminarError
from laminar.data.fingerprint import fingerprint
from laminar.data.open import open_data
from laminar.data.remember import Memory
from laminar.data.room import Room
from laminar.data.sources import python, source_of
from laminar.data.sources.protocol import Opening
from laminar.data.spec import DataSpec

LATER = FakeClock(4e9)
CODE = """\
import numpy as np
from pathlib import Path
from helper import factor

def rows(scale=1.0):
    here = Path(__file__).parent
    with open(here / "calls", "a") as file:
        file.write("x")
    t = np.loadtxt(here / "rows.csv", delimiter=",", dtype=np.float32)
    return t[:, :2] * scale * factor(), t[:, 2].astype(int)

def four():
    x, y = rows()
    return x, y, x[:6], y[:6]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "tables.py").write_text(CODE)
    (root / "helper.py").write_text("def factor():\n    return 1.0\n")
    (root / "rows.csv").write_text("".join(f"{i},{i * i % 7},{i % 3}\n" for i in range(30)))
    return root


TWICE = 2  # a quick function is called twice when it is first seen, or changed


def calls(root: Path) -> int:
    return len((root / "calls").read_text()) if (root / "calls").exists() else 0


def content(root: Path, source: str = "python:tables:rows", **args: object) -> str:
    return str(fingerprint(DataSpec(source=source, args=args), root, root.parent / "cache", clock=LATER)["content"])


def test_a_known_call_is_not_made_again(root: Path) -> None:
    first = content(root)
    assert content(root) == first
    assert calls(root) == TWICE


def test_key_and_training_share_one_call(root: Path) -> None:
    spec, cache = DataSpec(source="python:tables:rows"), root.parent / "cache"
    fingerprint(spec, root, cache)
    open_data(spec, root, cache=cache)
    assert calls(root) == TWICE
    fingerprint(spec, root, cache)  # the file is young, so the call is not remembered; but that it repeats is
    assert calls(root) == TWICE + 1


def test_a_changed_file_that_it_reads_is_seen(root: Path) -> None:
    before = content(root)
    (root / "rows.csv").write_text((root / "rows.csv").read_text().replace("3,2,0", "3,5,0"))
    assert content(root) != before
    assert calls(root) == 2 * TWICE


def test_a_changed_helper_is_seen_even_within_a_second(root: Path) -> None:
    before = content(root)
    (root / "helper.py").write_text("def factor():\n    return 2.0\n")  # same size, same second: bytecode would not notice
    assert content(root) != before
    assert content(root, scale=0.5) == before  # 2.0 * 0.5: it is the samples that count


def test_the_same_samples_have_the_same_fingerprint(root: Path) -> None:
    before = content(root)
    (root / "helper.py").write_text("def factor():\n    return 0.5 + 0.5\n")
    assert content(root) == before
    assert calls(root) == 2 * TWICE


def test_a_comment_costs_no_call(root: Path) -> None:
    content(root)
    (root / "tables.py").write_text(CODE + "\n# nothing\n")
    content(root)
    assert calls(root) == TWICE


def test_a_new_file_in_a_folder_that_it_lists_is_seen(root: Path) -> None:
    (root / "many").mkdir()
    (root / "many" / "a.csv").write_text("1,2\n")
    (root / "lister.py").write_text(
        "import numpy as np\nfrom pathlib import Path\n"
        "def all():\n"
        "    paths = sorted((Path(__file__).parent / 'many').glob('*.csv'))\n"
        "    t = np.concatenate([np.loadtxt(p, delimiter=',', ndmin=2) for p in paths] * 4)\n"
        "    return t, np.arange(len(t)) % 2\n"
    )
    before = content(root, "python:lister:all")
    assert content(root, "python:lister:all") == before
    (root / "many" / "b.csv").write_text("3,4\n")
    assert content(root, "python:lister:all") != before


def test_a_file_that_appears_later_is_seen(root: Path) -> None:
    (root / "maybe.py").write_text(
        "import numpy as np\nfrom pathlib import Path\n"
        "def f():\n"
        "    try:\n        text = Path(__file__).with_name('extra.txt').read_text()\n"
        "    except FileNotFoundError:\n        text = '0'\n"
        "    return np.full((8, 2), float(text)), np.arange(8) % 2\n"
    )
    before = content(root, "python:maybe:f")
    (root / "extra.txt").write_text("5")
    assert content(root, "python:maybe:f") != before


def test_four_arrays_are_a_test_set_of_its_own(root: Path) -> None:
    data = open_data(DataSpec(source="python:tables:four"), root)
    assert (len(data.train), len(data.test)) == (30, 6)
    assert data.classes == ("0", "1", "2")


def test_a_dataset_is_taken_as_it_is(root: Path) -> None:
    (root / "whole.py").write_text(
        "import numpy as np\nfrom laminar.data.dataset import Dataset, Split\n"
        "def f():\n"
        "    s = Split(np.zeros((4, 2), np.float32), np.arange(4) % 2)\n"
        "    return Dataset(s, s, ('no', 'yes'))\n"
    )
    data = open_data(DataSpec(source="python:whole:f", classes=["yes", "no"]), root)
    assert data.classes == ("yes", "no")
    assert data.train.y.tolist() == [1, 0, 1, 0]


def test_nothing_is_left_behind_in_the_process(root: Path, tmp_path: Path) -> None:
    before, path = set(sys.modules), list(sys.path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "helper.py").write_text("def factor():\n    return 7.0\n")
    (other / "tables.py").write_text(CODE)
    (other / "rows.csv").write_bytes((root / "rows.csv").read_bytes())
    one, two = (open_data(DataSpec(source="python:tables:rows"), r) for r in (root, other))
    assert (two.train.x == 7 * one.train.x).all()
    assert sys.path == path
    assert not {"tables", "helper"} & set(sys.modules)
    left = {name for name in set(sys.modules) - before if not name.startswith(("laminar.", "_laminar_project_"))}
    assert not any(str(getattr(sys.modules[name], "__file__", "")).startswith((str(root), str(other))) for name in left)
    assert not list(root.rglob("__pycache__"))


def test_packages_and_late_imports_work(root: Path) -> None:
    (root / "pack").mkdir()
    (root / "pack" / "__init__.py").write_text("")
    (root / "pack" / "a.py").write_text("def f(n=8):\n    from pack.b import g\n    from . import b\n    return g(n)\n")
    (root / "pack" / "b.py").write_text("import numpy as np\ndef g(n):\n    return np.ones((n, 2)), np.arange(n) % 2\n")
    assert len(open_data(DataSpec(source="python:pack.a:f", args={"n": 12}), root).train) == 10


@pytest.mark.parametrize(
    ("source", "code", "says"),
    [
        ("python:tabels:rows", "L101", ["tabels.py", "did you mean 'tables'"]),
        ("python:tables", "L109", ["names no function"]),
        ("python:tables:rosw", "L108", ["has no function 'rosw'", "did you mean 'rows'"]),
        ("python:broken:f", "L108", ["could not be imported", "broken.py:1", "ZeroDivisionError"]),
        ("python:bad:raises", "L108", ["failed", "bad.py:3", "KeyError"]),
        ("python:bad:returns", "L108", ["returned a int"]),
        ("python:bad:three", "L108", ["returned a tuple of 3"]),
        ("python:bad:unequal", "L110", ["4 train samples, but 3 labels"]),
    ],
)
def test_mistakes_are_explained(source: str, code: str, says: list[str], root: Path) -> None:
    (root / "broken.py").write_text("x = 1 / 0\n")
    (root / "bad.py").write_text(
        "import numpy as np\ndef raises():\n    return {}['k']\n"
        "def returns():\n    return 3\ndef three():\n    return 1, 2, 3\n"
        "def unequal():\n    return np.zeros((4, 2)), np.arange(3) % 2\n"
    )
    with pytest.raises(LaminarError) as caught:
        open_data(DataSpec(source=source), root)
    assert caught.value.code == code, str(caught.value)
    for text in says:
        assert text in str(caught.value)


def test_wrong_arguments_name_the_nearest(root: Path) -> None:
    with pytest.raises(LaminarError, match="did you mean 'scale'") as caught:
        open_data(DataSpec(source="python:tables:rows", args={"scael": 2}), root)
    assert caught.value.code == "L109"
    assert calls(root) == 0


DICE = "import os, numpy as np\ndef f():\n    return np.frombuffer(os.urandom(16), np.uint8).reshape(8, 2), np.arange(8) % 2\n"


def test_a_function_that_is_not_one_is_found_out_at_once(root: Path) -> None:
    (root / "dice.py").write_text(DICE)
    spec, cache = DataSpec(source="python:dice:f"), root.parent / "cache"
    for look in (lambda: fingerprint(spec, root, cache, clock=LATER), lambda: open_data(spec, root, cache=cache)):
        with pytest.raises(LaminarError, match="pass a seed") as caught:
            look()
        assert caught.value.code == "L108"


def test_unseeded_numpy_is_found_out_and_seeded_is_not(root: Path) -> None:
    (root / "draws.py").write_text(
        "import numpy as np, random\n"
        "def free():\n    return np.random.rand(8, 2), np.arange(8) % 2\n"
        "def free_too():\n    y = [random.randrange(2) for _ in range(64)]\n    return np.zeros((64, 2)), np.array(y)\n"
        "def bound(seed=1):\n    np.random.seed(seed)\n    return np.random.rand(8, 2), np.arange(8) % 2\n"
    )
    for name in ("free", "free_too"):
        with pytest.raises(LaminarError, match="returned other data than before"):
            content(root, f"python:draws:{name}")
    assert content(root, "python:draws:bound") == content(root, "python:draws:bound", seed=1) != content(root, "python:draws:bound", seed=2)


@pytest.mark.parametrize(("limit", "says"), [("CHEAP_SECONDS", "it took 0.0 s"), ("CHEAP_BYTES", "it returned 0 MB")])
def test_a_dear_function_is_called_once_and_that_is_said(limit: str, says: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, limit, 0)
    (root / "dice.py").write_text(DICE)
    memory = Memory(root.parent / "cache")
    for name in ("dice:f", "tables:rows"):
        spec = DataSpec(source=f"python:{name}")
        source_of(spec, root).contents(memory)
        first = Opening(Room(), memory)
        source_of(spec, root).open(first)  # takes over what the fingerprint saw
        assert len(first.notes) == 1
        assert says in first.notes[0]
    assert calls(root) == 1
    with pytest.raises(LaminarError, match="pass a seed") as caught:  # seen a second time, it is found out all the same
        source_of(DataSpec(source="python:dice:f"), root).open(Opening(Room(), memory))
    assert caught.value.code == "L108"


def test_what_was_proved_is_not_noted(root: Path) -> None:
    spec, memory = DataSpec(source="python:tables:rows"), Memory(root.parent / "cache", clock=LATER)
    source_of(spec, root).contents(memory)
    for _ in range(2):
        how = Opening(Room(), memory)
        source_of(spec, root).open(how)
        assert how.notes == []
    assert calls(root) == TWICE + 1
