"""What code looked at while it ran: files, folders, variables, and what cannot be seen; and a hook that outlives its module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from laminar.core import digest
from laminar.core.observe import ChangedMeanwhile, Looking, state

AT_THE_END = """
import os
from pathlib import Path
from laminar.core import watch
from laminar.core.observe import Looking


class Late:
    def __del__(self):  # when the module that the hook is of has lost its names
        os.listdir(".")


with Looking(Path(".")):
    pass
watch.late = Late()
watch._LISTENERS = None
os.listdir(".")
"""


def ran(text: str, root: Path, **names: object) -> Looking:
    """The user's own code, as a module of its own has it."""
    with Looking(root) as looking:
        exec(compile(text, str(root / "models.py"), "exec"), {"os": os, "Path": Path, "root": root, "np": np, **names})
    return looking


def test_files_folders_and_questions(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "n.npy").write_bytes(b"")
    text = "(root / 'a').read_text(); os.listdir(root / '.'); os.path.exists(root / 'flag'); (root / 'b').write_text('y')\n"
    text += "try: open(root / 'c')\nexcept OSError: pass"
    looking = ran(text, tmp_path)
    assert looking.tags == ["asked:flag", "file:a", "file:c", "folder:."]
    seen = looking.settle(digest.of_file)
    assert (seen["file:a"], seen["file:c"], seen["asked:flag"]) == (digest.of_bytes(b"x"), "missing", "missing")
    (tmp_path / "flag").touch()
    assert state("asked:flag", tmp_path, digest.of_file) == "0 bytes"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("kind", ["file", "source", "asked"])
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    """A pipe is waited for and a device never ends; whoever wrote the record may have named one."""
    os.mkfifo(tmp_path / "pipe")
    for path in ("pipe", os.devnull):
        assert state(f"{kind}:{path}", tmp_path, digest.of_file) == "no file"


def test_nothing_is_heard_outside(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    plain = os.stat
    looking = ran("pass", tmp_path)
    (tmp_path / "a").read_text()
    assert looking.tags == [] and os.stat is plain


def test_variables_of_the_users_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIDE", "4")
    text = "os.environ['WIDE']; os.getenv('NOT_THERE'); os.environ['MADE'] = '1'; os.environ['MADE']; del os.environ['MADE']"
    looking = ran(text, tmp_path)
    assert looking.settle(digest.of_file) == {"env:NOT_THERE": "unset", "env:WIDE": digest.of_bytes(b"4")}
    assert looking.unseen == []
    assert ran("dict(os.environ)", tmp_path).unseen == ["takes all variables of the environment"]


def test_variables_that_libraries_read_are_none_of_ours(tmp_path: Path) -> None:
    import tqdm.std  # type: ignore[import-untyped]

    assert ran("tqdm.tqdm([], disable=True).close()", tmp_path, tqdm=tqdm.std).tags == []


def test_native_readers_are_told(tmp_path: Path) -> None:
    import safetensors
    from safetensors.numpy import save_file

    save_file({"w": np.zeros(2)}, tmp_path / "w.safetensors")
    with Looking(tmp_path):
        pass  # wraps what is there
    opened = ran("safe_open(root / 'w.safetensors', 'np').keys()", tmp_path, safe_open=safetensors.safe_open)
    assert opened.tags == ["file:w.safetensors"]


def test_programs_are_said(tmp_path: Path) -> None:
    looking = ran("import subprocess; subprocess.run(['true'], check=True)", tmp_path)
    assert looking.unseen == ["starts a program (true)"]


def test_a_file_that_changes_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    looking = ran("open(root / 'a').close()", tmp_path)
    (tmp_path / "a").write_text("another")
    with pytest.raises(ChangedMeanwhile, match="a"):
        looking.settle(digest.of_file)
    assert looking.settle(digest.of_file, {"file:a": "known"}) == {"file:a": "known"}


def test_what_the_code_wrote_itself_is_no_input(tmp_path: Path) -> None:
    looking = ran("(root / 'log').write_text('x'); (root / 'log').read_text()", tmp_path)
    assert looking.tags == []
    cached = ran("os.path.exists(root / 'cache'); (root / 'cache').write_text('x')", tmp_path)
    assert cached.settle(digest.of_file) == {"file:cache": digest.of_bytes(b"x")}  # whoever runs next reads it


def test_python_code_counts_by_its_meaning(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text("W = 4\n")
    text = (
        "import importlib.util as u\ns = u.spec_from_file_location('x', root / 'plugin.py')\n"
        "m = u.module_from_spec(s); s.loader.exec_module(m)"
    )
    looking = ran(text, tmp_path)
    assert looking.tags == ["source:plugin.py"]
    before = looking.settle(digest.of_file)
    (tmp_path / "plugin.py").write_text("# why\nW = 4\n")
    assert state("source:plugin.py", tmp_path, digest.of_file) == before["source:plugin.py"]
    (tmp_path / "plugin.py").write_text("W = 8\n")
    assert state("source:plugin.py", tmp_path, digest.of_file) != before["source:plugin.py"]


def test_nothing_is_said_when_the_interpreter_ends() -> None:
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
