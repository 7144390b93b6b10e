"""Files that were uploaded: kept while a run needs them or may be about to, and deleted after that."""

from __future__ import annotations

import msgspec
import pytest

from laminar.core import digest
from laminar.grid.daemons.file_deleter import AFTER, UNUSED, delete_files
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.daemons.office import HOUSEKEEPING
from laminar.grid.db import runs, versions
from laminar.grid.population.hall import Hall
from laminar.grid.population.problem import Clouds
from laminar.grid.server import commands
from laminar.grid.server.service import Denied
from laminar.grid.wire.messages import About
from laminar.train.on_grid import Grid

SETTINGS = Clouds.settings(Grid(workers=2, rounds=4), seed=0)
DAY = 86400.0


def about(name: str, graph: bytes, fixed: bytes) -> About:
    empty: dict[str, object] = {"aliases": {}, "frozen": [], "recipe": {}, "data": {}, "compress": {}, "buffers": {}}
    graphs = {"train": digest.of_bytes(graph)}
    more = {"parameters": SETTINGS.parameters, "gradients": SETTINGS.gradients, "classes": None, "sketch": 0}
    return About(run=name, graphs=graphs, fixed=digest.of_bytes(fixed), **empty, **more)  # type: ignore[arg-type]


class Grids:
    def __init__(self) -> None:
        self.hall = Hall(TorchLearner(), seed=0)
        self.hall.now = 1000 * DAY
        self.first = Clouds.first()

    def begin(self, name: str, graph: bytes, fixed: bytes = b"fixed") -> int:
        return self.hall.begin(name, SETTINGS, self.first, about(name, graph, fixed), {"g": graph, "f": fixed})

    def has(self, data: bytes) -> bool:
        return self.hall.desk.do(lambda tx: versions.get_file(tx, digest.of_bytes(data))) is not None

    def later(self, seconds: float) -> None:
        """The office looks by itself."""
        self.hall.now += seconds
        self.hall.office.turn()

    def end(self, run: int, state: str) -> None:
        self.hall.desk.do(lambda tx: runs.save(tx, run, state=state, ended=self.hall.now))


@pytest.fixture
def grids() -> Grids:
    return Grids()


@pytest.mark.parametrize("state", ["open", "paused"])
def test_what_a_run_that_lives_needs_is_never_deleted(grids: Grids, state: str) -> None:
    run = grids.begin("a", b"graph")
    grids.hall.desk.do(lambda tx: runs.save(tx, run, state=state))
    for _ in range(5):
        grids.later(100 * DAY)
    told = msgspec.json.encode(about("a", b"graph", b"fixed"))
    assert grids.has(b"graph") and grids.has(b"fixed") and grids.has(told)
    assert not grids.has(grids.first)  # the run has it as a version


@pytest.mark.parametrize("state", ["done", "stopped"])
def test_after_its_end_a_run_keeps_its_files_for_some_days(grids: Grids, state: str) -> None:
    ended, alive = grids.begin("old", b"graph"), grids.begin("new", b"other graph")  # with the same frozen weights
    grids.later(10 * DAY)
    grids.end(ended, state)
    grids.later(AFTER - HOUSEKEEPING)
    assert grids.has(b"graph")
    grids.later(3 * HOUSEKEEPING)
    assert not grids.has(b"graph") and not grids.has(msgspec.json.encode(about("old", b"graph", b"fixed")))
    assert grids.has(b"fixed") and grids.has(b"other graph")  # somebody else needs it
    grids.end(alive, state)
    grids.later(AFTER + HOUSEKEEPING)
    assert not grids.has(b"fixed") and not grids.has(b"other graph")


def test_what_was_uploaded_waits_a_day_for_its_run(grids: Grids) -> None:
    grids.hall.desk.do(lambda tx: versions.put_file(tx, grids.hall.now, b"never begun"))
    grids.later(UNUSED)
    assert grids.has(b"never begun")
    grids.later(HOUSEKEEPING)
    assert not grids.has(b"never begun")


def test_a_file_that_is_uploaded_again_waits_anew(grids: Grids) -> None:
    """Between an upload and the begin of its run nothing may go, however old it is."""
    ended = grids.begin("a", b"graph")
    grids.end(ended, "stopped")
    grids.later(AFTER - HOUSEKEEPING)
    for data in (b"graph", b"fixed", grids.first, msgspec.json.encode(about("a", b"graph", b"fixed"))):
        grids.hall.desk.do(lambda tx, data=data: versions.put_file(tx, grids.hall.now, data))  # type: ignore[misc]
    grids.later(UNUSED - 1)
    assert grids.has(b"graph") and grids.has(b"fixed") and grids.has(grids.first)
    assert grids.begin("a", b"graph") == ended  # and it goes on
    grids.later(100 * DAY)
    assert grids.has(b"graph") and grids.hall.run(ended).state == "open"


def test_a_run_whose_files_are_gone_is_not_reopened(grids: Grids) -> None:
    run = grids.begin("a", b"graph")
    grids.end(run, "stopped")
    grids.later(AFTER + HOUSEKEEPING)
    asked = commands.Begin(
        name="a",
        layer="a",
        settings=SETTINGS,
        about=grids.hall.run(run).about,
        version=digest.of_bytes(grids.first),
    )
    with pytest.raises(Denied, match="not uploaded"):
        grids.hall.desk.do(lambda tx: commands.begin(tx, asked, grids.hall.learner, grids.hall.now))
    assert grids.hall.run(run).state == "stopped"


def test_many_are_deleted_in_several_goes(grids: Grids) -> None:
    for number in range(250):
        grids.hall.desk.do(lambda tx, number=number: versions.put_file(tx, grids.hall.now, b"%d" % number))  # type: ignore[misc]
    grids.hall.now += 2 * UNUSED
    assert [grids.hall.desk.do(lambda tx: delete_files(tx, grids.hall.now)) for _ in range(4)] == [100, 100, 50, 0]
