"""What there is and what can still be had: the machine's memory, or what its container leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.core.memory import available, limit, total

MACHINE = 8 << 30


def machine(root: Path, groups: str, files: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {MACHINE >> 10} kB\n")
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        (root / "sys/fs/cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "sys/fs/cgroup" / name).write_text(text)
    return root


def group(folder: str, most: str, used: int, reclaimable: int) -> dict[str, str]:
    stat = f"anon 1\ninactive_file {reclaimable}\n"
    return {f"{folder}memory.max": most, f"{folder}memory.current": str(used), f"{folder}memory.stat": stat}


def test_without_a_limit_it_is_what_the_machine_has(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/a\n", group("a/", "max\n", 5, 5))
    assert available(root) == MACHINE
    assert limit(root) is None


def test_a_container_may_have_less(tmp_path: Path) -> None:
    """What the files it has read take is given up for others."""
    root = machine(tmp_path, "0::/\n", group("", "1000\n", 700, 200))
    assert available(root) == 500
    assert limit(root) == 1000


def test_the_narrowest_group_decides_also_one_above(tmp_path: Path) -> None:
    files = group("a/", "1000", 900, 0) | group("a/b/", "5000", 0, 0)
    root = machine(tmp_path, "0::/a/b\n", files)
    assert available(root) == 100
    assert limit(root) == 1000


@pytest.mark.parametrize("path", ["/docker/0f3e", "/"])  # the first: as seen from outside of the container
def test_the_older_kind_of_groups(tmp_path: Path, path: str) -> None:
    files = {
        "memory/memory.limit_in_bytes": "4096\n",
        "memory/memory.usage_in_bytes": "96\n",
        "memory/memory.stat": "cache 1\ntotal_inactive_file 0\n",
    }
    root = machine(tmp_path, f"5:cpu,cpuacct:/\n4:memory:{path}\n0::/\n", files)
    assert available(root) == 4000
    assert limit(root) == 4096


def test_a_full_group_has_nothing(tmp_path: Path) -> None:
    assert available(machine(tmp_path, "0::/\n", group("", "1000", 1200, 0))) == 0


def test_a_system_that_does_not_tell(tmp_path: Path) -> None:
    assert available(tmp_path) is None
    assert limit(tmp_path) is None


@pytest.mark.parametrize(
    ("physical", "most", "size"),
    [(6000, "max\n", 6000), (6000, "4096\n", 4096), (2000, "4096\n", 2000), (None, "4096\n", 4096), (None, "max\n", None)],
)
def test_a_process_can_have_what_both_the_machine_and_its_container_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, physical: int | None, most: str, size: int | None
) -> None:
    monkeypatch.setattr("laminar.core.memory.physical", lambda: physical)
    assert total(machine(tmp_path, "0::/a/b\n", group("a/", most, 0, 0) | group("a/b/", "max\n", 0, 0))) == size
