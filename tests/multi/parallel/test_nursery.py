"""Processes that a nursery forks: like those that are started, and gone with whoever asked for them, or with the nursery."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from laminar.parallel.crew import Crew, LocalMember
from laminar.parallel.forked import Forked, Nursery
from tests.cluster.processes import all_gone
from tests.multi.parallel.test_spare_processes import MODULE, heard

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is for Linux")
STAYS = "tests.multi.parallel.stays"


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        ready(made)
        yield made


def ready(nursery: Nursery) -> None:
    while nursery.loading:
        select.select([nursery._bell], [], [])


@pytest.fixture
def crew(nursery: Nursery) -> Iterator[Crew]:
    with Crew() as made:
        made.nursery = nursery.address
        yield made


def until_it_speaks(crew: Crew, member: LocalMember) -> dict[str, object]:
    while not member.ended:
        for said in crew.hear():
            if said.member is member and said.event is not None:
                return said.event
    raise AssertionError(member.how_it_ended())


def test_they_are_like_those_that_are_started(crew: Crew, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAMINAR_OURS", "yes")
    (tmp_path / "tests").symlink_to(Path("tests").resolve())  # they are imported from where whoever asks is
    monkeypatch.chdir(tmp_path)
    first = crew.start(MODULE, "worker", 3, {"word": "a"}, environment={"LAMINAR_WORD": "b"})
    second = crew.start(MODULE, "worker", 4, {"word": "c"})
    assert isinstance(first.process, Forked) and first.pid != second.pid
    assert heard(crew) == [["a", 3, "b", True], ["c", 4, None, True]]  # the last: had it loaded torch by then?
    assert first.code == second.code == 0
    about = until_it_speaks(crew, third := crew.start(STAYS, "worker", 5, {}))
    assert (about["ours"], about["folder"], about["session"]) == ("yes", str(tmp_path), third.pid)
    assert about["threads"] == 1, "of a process that had others, a fork may hang"
    assert about["chance"] != until_it_speaks(crew, crew.start(STAYS, "worker", 6, {}))["chance"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 7), (signal.SIGKILL, -signal.SIGKILL)])
def test_signals_reach_them_and_their_end_is_heard(crew: Crew, number: signal.Signals, code: int) -> None:
    member = crew.start(STAYS, "worker", 0, {})
    until_it_speaks(crew, member)
    assert not member.wait(0.01)
    member.send(number)
    while not member.ended:
        list(crew.hear())
    assert member.code == code
    member.send(signal.SIGTERM)  # nothing happens


def test_they_end_with_whoever_asked_for_them(nursery: Nursery) -> None:
    asks = f"from tests.multi.parallel.test_nursery import stay; stay({nursery.address!r})"
    with subprocess.Popen([sys.executable, "-c", asks], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        pid = int(asking.stdout.readline())
        asking.kill()
    assert all_gone({pid}, 30)


def stay(address: str) -> None:
    with Crew() as crew:
        crew.nursery = address
        until_it_speaks(crew, member := crew.start(STAYS, "worker", 0, {}))
        print(member.pid, flush=True)
        member.wait(60)


def test_they_end_with_the_nursery_and_others_are_started_without_one() -> None:
    with Crew() as crew:
        with Nursery() as made:
            assert made.address == "", "nobody asks one that is not ready"
            ready(made)
            crew.nursery = made.address
            until_it_speaks(crew, member := crew.start(STAYS, "worker", 0, {}))
        while not member.ended:
            list(crew.hear())
        assert member.code == -signal.SIGKILL
        other = crew.start(MODULE, "worker", 1, {"word": "a"})
        assert isinstance(other.process, subprocess.Popen)
        heard(crew)
        assert other.done == ["a", 1, None, False]


def test_a_folder_too_deep_for_a_socket_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with Nursery() as made:
        assert not made.loading and made.address == ""
    assert os.listdir(deep) == []
