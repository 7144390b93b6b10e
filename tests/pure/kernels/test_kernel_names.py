"""A kernel's name and digest: what graphs and grids know it by, and the files that have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.core.kernel_files import KernelName
from laminar.grid.node.kernels import Kernels
from laminar.kernels.files import kernels_in, usable
from laminar.kernels.open_file import read_text

LEAKY = """void kernel(int i, int n, float slope, const float x[n], float y[n]) {
    float v = x[i];
    if (v < 0.0f) v = slope * v;
    y[i] = v;
}
"""


def test_comments_and_spaces_do_not_count_and_everything_else_does() -> None:
    name = KernelName.of(LEAKY, "leaky.c")
    spaced = "/* one\n   two */\n" + LEAKY.replace("    ", "\t").replace("v;\n", "v;  // said\n\n")
    assert KernelName.of(spaced, "elsewhere/leaky.c") == name
    assert name.operator == f"leaky_{name.sha256}" and len(name.sha256) == 64
    assert str(name) == f"leaky.c (sha256 {name.sha256[:12]}…)"
    others = [
        KernelName.of(LEAKY, "other.c"),  # leaky_backward would be found in one only
        KernelName.of(LEAKY.replace("0.0f", "0.5f"), "leaky.c"),
        KernelName.of(LEAKY.replace("float v", "floatv"), "leaky.c"),
        KernelName.of("#pragma laminar contract off\n" + LEAKY, "leaky.c"),
    ]
    assert len({name.sha256, *(one.sha256 for one in others)}) == 5


def test_lines_count_where_directives_end_with_them() -> None:
    assert KernelName.of("#define A 1\nint x;", "a.c") != KernelName.of("#define A 1 int x;", "a.c")


def test_what_is_said_beside_a_kernel_is_part_of_it(tmp_path: Path) -> None:
    file = tmp_path / "leaky.c"
    file.write_text(LEAKY)
    before = KernelName.of(read_text(file), file.name)
    (tmp_path / "leaky.params.toml").write_text('[x]\nmode = "in"\n')
    assert KernelName.of(read_text(file), file.name) != before


def test_a_file_name_becomes_an_operators() -> None:
    assert [KernelName.stem_of(file) for file in ("my-kernel.v2.c", "a b.c", "é.c", "x/leaky.c")] == ["my_kernel_v2", "a_b", "_", "leaky"]


def test_files_are_found_below_a_folder_but_not_in_hidden_ones(tmp_path: Path) -> None:
    for place in ("a", "a/deep", ".git", "__pycache__"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "leaky.c").write_text(LEAKY)
    (tmp_path / "other.c").write_text(LEAKY)
    (tmp_path / "broken.c").write_bytes(b"\xff\xfe")
    assert [one.path.relative_to(tmp_path).as_posix() for one in kernels_in(tmp_path)] == ["other.c", "a/leaky.c", "a/deep/leaky.c"]
    assert [one.path.parent.name for one in kernels_in(tmp_path, "leaky")] == ["a", "deep"]
    assert list(kernels_in(tmp_path / "nowhere")) == []


def test_a_node_announces_what_keeps_to_the_rules(tmp_path: Path) -> None:
    (tmp_path / "leaky.c").write_text(LEAKY)
    (tmp_path / "twice.c").write_text(LEAKY.replace("y[i] = v", "goto end"))
    told: list[str] = []
    own = Kernels(tmp_path, told.append)
    assert own.digests == (KernelName.of(LEAKY, "leaky.c").sha256,)
    assert len(told) == 1 and told[0].startswith("twice.c is no kernel: twice.c:4")
    (tmp_path / "leaky.c").unlink()
    own.look_again()
    assert own.digests == ()
    assert Kernels(None, told.append).digests == ()
    with pytest.raises(LaminarError, match="there is no folder") as caught:
        usable(tmp_path / "nowhere")
    assert caught.value.code == "L008"
