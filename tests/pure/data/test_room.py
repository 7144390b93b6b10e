"""Room: arrays in memory up to a budget, beyond it in files that nobody has to clean up."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core.errors import LaminarError
from laminar.data import mapped
from laminar.data.dataset import Split
from laminar.data.mapped import MappedArray
from laminar.data.room import Room, budget_of, gather, is_mapped, release, row_slices, will_need

few = settings(derandomize=True, max_examples=30, deadline=None)


def filled(room: Room, rows: int = 300, width: int = 700) -> np.ndarray:
    x = room.empty((rows, width), np.uint8)
    x[:] = np.random.default_rng(0).integers(0, 256, x.shape, dtype=np.uint8)
    return x


def test_arrays_are_in_memory_while_all_that_live_fit() -> None:
    room = Room(1000)
    one = room.empty((600,), np.uint8)
    two = room.empty((300,), np.uint8)
    assert not is_mapped(one) and not is_mapped(two)
    assert room.used == 900
    assert is_mapped(room.empty((101,), np.uint8))
    view = one[:10]
    del one
    gc.collect()
    assert room.used == 900  # the view holds it
    del view
    gc.collect()
    assert room.used == 300
    assert not is_mapped(room.empty((700,), np.uint8))


def test_without_a_budget_everything_is_in_memory_and_nothing_needs_no_room() -> None:
    assert not is_mapped(Room().empty((10_000_000,), np.uint8))
    assert not is_mapped(Room(1).empty((0, 5), np.float32))


def test_a_mapped_array_is_like_any_other() -> None:
    memory, on_disk = filled(Room()), filled(Room(1))
    assert is_mapped(on_disk) and isinstance(on_disk, MappedArray)
    index = np.array([5, 3, 3, 299, 0])
    for x in (on_disk, np.asarray(on_disk), on_disk[:], on_disk.reshape(300, 7, 100).reshape(300, -1)):
        assert np.array_equal(x, memory)
        assert np.array_equal(x[index], memory[index])
        assert np.array_equal(x[memory > 250], memory[memory > 250])
        assert int(x.sum()) == int(memory.sum())
        assert is_mapped(x)
    for computed in (on_disk[index], on_disk + 1, np.isfinite(on_disk), on_disk.astype(np.float32), on_disk.copy()):
        assert type(computed) is np.ndarray
    assert pickle.loads(pickle.dumps(on_disk[:3])).tolist() == memory[:3].tolist()  # noqa: S301 - our own


def test_what_was_written_stays_when_pages_are_let_go_of() -> None:
    x = filled(Room(1))
    expected = np.array(x)
    x[7, 3] = expected[7, 3] = 9  # through the mapping
    x[10:200] = expected[10:200] = 5  # past it
    x[3] = expected[3] = np.arange(700) % 256
    x[::2, 1] = expected[::2, 1] = 77
    release(x[5:9])
    will_need(x, 10, 20)
    assert np.array_equal(x, expected)
    with pytest.raises(ValueError, match="broadcast"):
        x[0:8] = np.zeros((3, 700), dtype=np.uint8)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_pages_do_not_pile_up() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    x = Room(1).empty((40_000, 4096), np.uint8)  # 164 MB
    before = peak = resident()
    for part in row_slices(x):
        x[part] = 1
        peak = max(peak, resident())
    total = 0
    for part in row_slices(x):
        total += int(x[part].sum())
        peak = max(peak, resident())
    order = np.random.default_rng(0).permutation(len(x))
    out = np.empty((2000, 4096), dtype=np.uint8)
    for start in range(0, len(x), 2000):
        gather(x, order[start : start + 2000], out)
        total += int(out.sum())
        peak = max(peak, resident())
    assert total == 2 * x.size
    assert peak - before < 80e6


@few
@given(st.integers(1, 60), st.lists(st.integers(0, 10_000), max_size=80), st.sampled_from([None, 1]), st.sampled_from([None, 1]))
def test_take_is_indexing(rows: int, index: list[int], budget: int | None, target: int | None) -> None:
    x = filled(Room(budget), rows, 50)
    chosen = np.array([i % rows for i in index], dtype=np.intp)
    taken = Room(target).take(x, chosen)
    assert np.array_equal(taken, np.array(x)[chosen])
    assert is_mapped(taken) == (target is not None and len(index) > 0)
    split = Split(x, np.arange(rows)).take(chosen, Room(target))
    assert np.array_equal(split.x, taken) and split.y.tolist() == chosen.tolist()


def test_take_refuses_rows_that_are_not_there() -> None:
    for wrong in (-1, 300):
        with pytest.raises(IndexError, match=str(wrong)):
            Room().take(filled(Room()), np.array([0, wrong]))


def test_the_file_has_no_name_and_its_space_comes_back(tmp_path: Path) -> None:
    x = filled(Room(1, tmp_path / "made"))
    assert list((tmp_path / "made").iterdir()) == []
    handles = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    del x
    gc.collect()
    if handles is not None:
        assert len(os.listdir("/proc/self/fd")) < handles


def test_nothing_is_left_when_the_process_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, numpy; from pathlib import Path; from laminar.data.room import Room\n"
        "x = Room(1, Path(sys.argv[1])).empty((5_000_000,), numpy.uint8); x[:] = 1\n"
        "print('ready', flush=True); sys.stdin.read()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_and_takes_nothing(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="no space left") as caught:
        Room(1, tmp_path).empty((1 << 50,), np.uint8)
    assert caught.value.code == "L301"
    assert str(tmp_path) in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_a_system_that_cannot_reserve_space_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.setattr(mapped, "_ZEROS", 1000)
    assert filled(Room(1, tmp_path)).shape == (300, 700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(LaminarError) as caught:
        Room(1, tmp_path).empty((5,), np.uint8)
    assert caught.value.code == "L302"


@pytest.mark.parametrize(
    ("given", "size"),
    [("512MB", 512 * 10**6), ("2GB", 2 * 10**9), ("1.5GiB", 3 << 29), ("20 kb", 20_000), ("1000", 1000), (77, 77), ("1e9", None),
     ("", None), ("much", None), ("-5MB", None), ("0", None), (0, None), ("5XB", None)],
)  # fmt: skip
def test_budgets_as_people_write_them(given: str | int, size: int | None) -> None:
    if size is not None:
        assert budget_of(given) == size
        return
    with pytest.raises(LaminarError, match="512MB") as caught:
        budget_of(given)
    assert caught.value.code == "L109"


@pytest.mark.parametrize(
    ("machine", "container", "budget"), [(6000, None, 3000), (6000, 4000, 2000), (6000, 1 << 62, 3000), (None, None, 2 << 30)]
)
def test_the_usual_budget_is_half_of_what_the_process_may_have(
    monkeypatch: pytest.MonkeyPatch, machine: int | None, container: int | None, budget: int
) -> None:
    monkeypatch.delenv("LAMINAR_DATA_MEMORY", raising=False)
    monkeypatch.setattr("laminar.core.memory.physical", lambda: machine)
    monkeypatch.setattr("laminar.core.memory.limit", lambda _: container)
    assert budget_of(None) == budget


def test_the_usual_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAMINAR_DATA_MEMORY", raising=False)
    assert 0 < budget_of(None) <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    monkeypatch.setenv("LAMINAR_DATA_MEMORY", "3MB")
    assert budget_of(None) == 3_000_000
    assert budget_of("4MB") == 4_000_000
    monkeypatch.setenv("LAMINAR_DATA_MEMORY", "plenty")
    with pytest.raises(LaminarError, match="LAMINAR_DATA_MEMORY"):
        budget_of(None)
