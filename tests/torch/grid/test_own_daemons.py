"""Validators and assimilators of other packages: the example of the docs at work, keys, and everything that one may do wrong."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.grid.daemons import own
from laminar.grid.server.service import Denied
from laminar.train.on_grid import Grid
from laminar.train.own_daemons import installed
from tests.e2e.docs_console import DOCS, blocks
from tests.torch.grid.crowd import Crowd

EXAMPLE = DOCS / "how-to-write-a-daemon.md"
BAD = """
import os, time

class Raises:
    def judge(self, answers, needs): raise ValueError("no idea")
    def step(self, model, parts): raise ValueError("no idea")

class Hangs:
    def judge(self, answers, needs): time.sleep(1000)

class Dies:
    def judge(self, answers, needs): os._exit(3)

class Invents:
    def judge(self, answers, needs):
        from laminar.grid.own_daemon import Judged
        return Judged(good=[987654])

class Says:
    def judge(self, answers, needs): return "good"

class NotFinite:
    def step(self, model, parts):
        from laminar.grid.own_daemon import Model
        return Model(model.values * float("nan"), model.buffers, {})

class Settings:
    def __init__(self, must): pass
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Make a package that is installed, here and in processes that are started."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))

    def write(text: str, points: dict[str, dict[str, str]], name: str = "outvote", version: str = "1.0") -> None:
        (folder / f"{name}.py").write_text(text)
        for old in folder.glob(f"{name}-*.dist-info"):
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in some.items()) for group, some in points.items()]
        (info / "entry_points.txt").write_text("\n\n".join(lines) + "\n")
        importlib.invalidate_caches()

    yield write
    own.end_all()


def example(install: Install) -> None:
    """As the page has it."""
    (code,) = [block.text for block in blocks(EXAMPLE) if block.language == "python"]
    assert len(code.splitlines()) <= 45
    toml = next(block.text for block in blocks(EXAMPLE) if block.language == "toml" and "entry-points" in block.text)
    groups = dict(re.findall(r'\[project\.entry-points\."(.*?)"\]\n(.*?)(?:\n\n|\Z)', toml, re.DOTALL))
    install(code, {group: dict(re.findall(r'(\w+) = "(.*?)"', lines)) for group, lines in groups.items()})


def bad(install: Install, name: str, **more: str) -> None:
    points = {"one": f"wrong:{name}"}
    install(BAD, {"laminar.grid.validators": points, "laminar.grid.assimilators": points}, name="wrong", **more)


def crowd_with(kinds: list[str], **how: Any) -> Crowd:
    return Crowd(kinds, Grid(workers=2, rounds=3, local_steps=1, replicate="never", **how))


def test_the_example_of_the_docs_trains_and_refuses_a_liar(install: Install) -> None:
    example(install)
    crowd = crowd_with(["honest", "honest", "honest", "flipped"], validator={"name": "median", "within": 0.3}, assimilator="momentum")
    assert crowd.play() > 0.5
    counts = crowd.counts
    assert counts["refused median"] >= 1 and counts["applied"] == 6  # two tasks in each of three rounds
    assert all(row["invalid"] == 0 for row in crowd.known() if row["name"].startswith("honest"))
    assert next(row["invalid"] for row in crowd.known() if row["name"].startswith("flipped")) == counts["invalid"]


def test_an_assimilator_gets_back_what_it_keeps(install: Install) -> None:
    """Steps with momentum, as they would be made by hand."""
    example(install)
    crowd = crowd_with(["honest"], assimilator={"name": "momentum", "momentum": 0.5}, quorum=1.0)
    values, moved = crowd.hall.version(crowd.run, 0).copy(), np.zeros(0, np.float32)
    for number in range(1, 4):
        changes = []
        for _ in range(2):
            task = crowd.take(0)
            assert task is not None
            changes.append(crowd.work(task))
            crowd.hall.answer(crowd.ids[0], task.result, crowd.packed(0, task))
            crowd.hall.office.turn()
        mean = np.stack(changes).mean(axis=0)
        moved = 0.5 * moved + mean if moved.size else mean
        values = values - moved
        assert np.allclose(crowd.hall.version(crowd.run, number), values, atol=1e-6)


def test_only_what_is_named_is_in_the_key(install: Install) -> None:
    plain = Grid().key_fields()
    assert "validator" not in plain and "assimilator" not in plain
    example(install)
    named = Grid(validator="median", assimilator={"name": "momentum", "momentum": 0.5}).key_fields()
    whole = {"name": "median", "settings": {}, "package": "outvote", "version": "1.0"}
    assert named["validator"] == {"kind": "validator", **whole}
    assert named["assimilator"]["settings"] == {"momentum": 0.5}
    assert {key: value for key, value in named.items() if key not in ("validator", "assimilator")} == plain


def test_a_name_that_nobody_has_is_refused_with_the_nearest(install: Install) -> None:
    example(install)
    with pytest.raises(LaminarError, match=r"validator 'medain'.*'?median'?") as caught:
        Grid(validator="medain").key_fields()
    assert caught.value.code == "L507" and "pip install" in caught.value.hint
    with pytest.raises(ValueError, match="must be a name"):
        Grid(validator={"within": 1})
    with pytest.raises(ValueError, match="must be a name"):
        Grid(assimilator="")


def test_a_server_refuses_a_run_whose_daemon_it_has_in_another_version(install: Install) -> None:
    example(install)
    grid = Grid(workers=2, rounds=1, validator="median")
    daemons = grid.own_daemons
    (code,) = [block.text for block in blocks(EXAMPLE) if block.language == "python"]
    install(code, {"laminar.grid.validators": {"median": "outvote:Median"}}, version="2.0")
    with pytest.raises(LaminarError, match=r"validator 'median' of outvote 1.0 is asked for, but outvote 2.0 is installed"):
        own.must_be_here(daemons)
    plain = Crowd(["honest"], Grid(workers=1, rounds=1))
    with pytest.raises(Denied, match="where the grid is served") as caught:
        plain.hall.begin("other", msgspec.structs.replace(plain.settings, daemons=daemons), plain.problem.first())
    assert caught.value.error == "daemon"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Raises", "failed: ValueError: no idea"),
        ("Hangs", "did not return within 3 s"),
        ("Dies", "ended its process with 3"),
        ("Invents", "judges result 987654"),
        ("Says", "failed: AttributeError"),
        ("Missing", "failed: AttributeError"),
        ("Settings", "failed: TypeError"),
    ],
)
def test_a_validator_that_fails_pauses_its_run_and_loses_no_answer(
    install: Install, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    if name == "Hangs":
        monkeypatch.setattr(own, "LONGEST", 3.0)
    bad(install, name)
    crowd = crowd_with(["honest"], validator="one", quorum=1.0)
    task = crowd.take(0)
    assert task is not None
    assert crowd.hall.answer(crowd.ids[0], task.result, crowd.packed(0, task)).state == "returned"
    crowd.hall.office.turn()
    run = crowd.hall.run(crowd.run)
    assert run.state == "paused" and run.why.startswith("the validator 'one' of wrong 1.0 ") and said in run.why and "[L507]" in run.why
    crowd.hall.office.turn()  # it is not asked again
    assert crowd.hall.run(crowd.run).version == 0 and crowd.counts["answers"] == 1
    mended(install)
    resumed(crowd)
    assert crowd.play() >= 0.0 and crowd.counts["applied"] == 6 and crowd.counts["answers"] == 6  # the first one included


@pytest.mark.parametrize(("name", "said"), [("Raises", "failed: ValueError"), ("NotFinite", "returned no version")])
def test_an_assimilator_that_fails_pauses_its_run_and_loses_no_answer(install: Install, name: str, said: str) -> None:
    bad(install, name)
    crowd = crowd_with(["honest"], assimilator="one", quorum=1.0)
    for _ in range(2):
        task = crowd.take(0)
        assert task is not None
        crowd.hall.answer(crowd.ids[0], task.result, crowd.packed(0, task))
        crowd.hall.office.turn()
    run = crowd.hall.run(crowd.run)
    assert run.state == "paused" and said in run.why and run.version == 0
    mended(install)
    resumed(crowd)
    crowd.play()
    assert crowd.counts["applied"] == 6 and crowd.counts["answers"] == 6


def test_a_run_whose_assimilator_fails_can_be_stopped(install: Install) -> None:
    from laminar.grid.server import commands

    bad(install, "Raises")
    crowd = crowd_with(["honest"], assimilator="one", quorum=1.0)
    task = crowd.take(0)
    assert task is not None
    crowd.hall.answer(crowd.ids[0], task.result, crowd.packed(0, task))
    crowd.hall.office.turn()
    crowd.hall.desk.do(lambda tx: commands.stop(tx, "crowd", crowd.hall.assimilator, crowd.hall.now))
    run = crowd.hall.run(crowd.run)
    assert run.state == "stopped" and run.why.startswith("stopped; without a last step: the assimilator 'one'")


def mended(install: Install) -> None:
    good = """
from laminar.grid.own_daemon import Judged, Model

class Good:
    def judge(self, answers, needs): return Judged(good=[one.result for one in answers])
    def step(self, model, parts): return Model(model.values - sum(p.change for p in parts) / len(parts), model.buffers, {})
"""
    points = {"one": "wrong:Good"}
    install(good, {"laminar.grid.validators": points, "laminar.grid.assimilators": points}, name="wrong")
    assert installed("validator", "one").version == "1.0"


def resumed(crowd: Crowd) -> None:
    from laminar.grid.server import commands

    crowd.hall.desk.do(lambda tx: commands.set_state(tx, "crowd", "open", crowd.hall.now))
    crowd.hall.feeder.changed()
    crowd.hall.office.turn()
