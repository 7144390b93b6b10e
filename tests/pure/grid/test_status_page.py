"""The status page in a JavaScript engine, on a document that remembers what was made: what it shows, and that names stay text."""

from __future__ import annotations

import copy
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
DOCUMENT = Path(__file__).with_name("fake_document.js").read_text()
NOTHING = {"seconds": 0.0, "computing": 0.0, "transfer": 0.0, "waiting": 0.0, "paused": 0.0, "wasted": 0.0}
SPENT = {"seconds": 50.0, "computing": 0.61, "transfer": 0.02, "waiting": 0.25, "paused": 0.07, "wasted": 0.05}
RUN: dict[str, Any] = {
    "name": "net-1",
    "layer": "net",
    "state": "open",
    "why": "",
    "version": 4,
    "rounds": 10,
    "mode": "rounds",
    "made": 1.0,
    "ended": None,
    "answers": 12,
    "applied": 8,
    "staleness": 0.25,
    "bytes": {"up": 1_500_000, "dense": 30_000_000},
    "trust": {"checks": 3, "compared": 5, "unchecked": 0, "disagreements": 1, "overhead": 0.5},
    "refused": {},
    "dropped": {},
    "late": 2,
    "lost": 1,
    "repeated": 0,
    "failed": 0,
    "results": {},
    "utilization": {"nodes": 0, **NOTHING},
    "curve": [],
}
NODE: dict[str, Any] = {
    "id": "0" * 20,
    "number": 1,
    "name": "desk",
    "owner": "",
    "seen": 990.0,
    "banned": None,
    "trusted": False,
    "speed": 120.0,
    "available": 0.5,
    "streak": 3,
    "valid": 7,
    "invalid": 0,
    "lost": 0,
    "quota": 64,
    "credit": 100.0,
    "bytes_down": 2_000,
    "bytes_up": 10,
    "facts": {},
    "enrolled": 0.0,
    "active": True,
    "utilization": NOTHING,
}
ROUND: dict[str, Any] = {
    "name": "net-1",
    "run": 1,
    "round": 3,
    "version": 3,
    "opened": 100.0,
    "deadline": None,
    "wanted": 4,
    "tasks": 4,
    "closed": 112.5,
    "answers": 3,
    "why": "quorum",
    "stepped": True,
    "utilization": NOTHING,
}

TASK: dict[str, Any] = {
    "id": 9,
    "task": 4,
    "run": "net-1",
    "state": "invalid",
    "verdict": "norm",
    "used": False,
    "sent": 900.0,
    "lease": 60.0,
    "returned": 930.0,
    "bytes": 2_000,
    "round": 3,
    "version": 3,
    "needs": 1,
    "node": "desk",
}


class Page:
    """The script after its first look at a grid."""

    def __init__(
        self, status: dict[str, Any], nodes: list[Any], rounds: list[Any], code: int = 200, tasks: list[Any] | None = None
    ) -> None:
        self._engine = pytest.importorskip("quickjs", reason="pip install 'laminar-train[dev]'").Context()
        self._engine.eval(DOCUMENT)
        self.answer(status, nodes, rounds, code, tasks)
        for name in ("view.js", "status.js"):  # two modules that are one script here
            text = (files("laminar.grid.server") / name).read_text(encoding="utf-8")
            self._engine.eval("\n".join(line.removeprefix("export ") for line in text.splitlines() if not line.startswith("import ")))
        self._finish()

    def answer(self, status: dict[str, Any], nodes: list[Any], rounds: list[Any], code: int = 200, tasks: list[Any] | None = None) -> None:
        told = {"v1/status": [code, status], "v1/nodes": [code, nodes], "v1/rounds": [code, rounds], "v1/tasks": [code, tasks or []]}
        self._engine.eval(f"answer({json.dumps(told)})")

    def again(self) -> None:
        self._engine.eval("later.pop()[0]()")
        self._finish()

    def _finish(self) -> None:
        while self._engine.execute_pending_job():
            pass

    def of(self, place: str) -> Any:
        return json.loads(self._engine.eval(f"JSON.stringify({place})"))


def page(
    *runs: dict[str, Any],
    nodes: list[Any] | None = None,
    rounds: list[Any] | None = None,
    newest: list[Any] | None = None,
    code: int = 200,
    **tasks: int,
) -> Page:
    known = nodes or []
    people = {"known": len(known), "active": sum(one["active"] for one in known), "trusted": 0, "banned": 0}
    return Page({"now": 1000.0, "nodes": people, "runs": list(runs), "tasks": tasks}, known, rounds or [], code, newest)


def elements(tree: Any) -> list[Any]:
    if isinstance(tree, str):
        return []
    return [tree, *(found for one in tree["inside"] for found in elements(one))]


def text(tree: Any) -> str:
    return tree if isinstance(tree, str) else " ".join(text(one) for one in tree["inside"])


def test_a_grid_without_anything_says_what_to_do() -> None:
    made = page()
    assert "laminar grid train LAYER" in text(made.of("places.runs"))
    assert "laminar grid join http://grid:8787 " in text(made.of("places.nodes"))
    assert "No round yet" in text(made.of("places.rounds"))
    assert text(made.of("places.figures")).startswith("0 of 0 nodes are here")
    assert made.of("places.all")["cls"] == "grid-view" and text(made.of("places.when")).startswith("at ")


def test_figures_runs_nodes_and_rounds_are_shown() -> None:
    curve = [{"version": version, "made": 1.0, "loss": 1.0, "accuracy": 0.1 * version} for version in range(5)]
    told = {**RUN, "curve": curve, "refused": {"norm": 2, "schema": 7}}
    made = page(told, nodes=[NODE, {**NODE, "number": 2, "active": False, "credit": 25.0}], rounds=[ROUND], valid=12, invalid=3)
    figures = text(made.of("places.figures"))
    assert "1 of 2 nodes are here" in figures and "12 valid" in figures and "3 invalid" in figures and "1.5 MB of answers" in figures
    run = text(made.of("places.runs"))
    for words in ("4 of 10", "12 for 8 tasks", "1.5 MB, 1/20 of dense", "50 %, 3 done twice", "schema 7 norm 2", "0.4000", "0.25", "2, 1"):
        assert words in run, words
    (line,) = [one for one in elements(made.of("places.runs")) if one["tag"] == "polyline"]
    points = [tuple(float(n) for n in pair.split(",")) for pair in line["said"]["points"].split()]
    assert points == [(6.0, 152.0), (153.0, 116.0), (300.0, 80.0), (447.0, 44.0), (594.0, 8.0)]  # upwards, from left to right
    rows = [text(row) for row in elements(made.of("places.nodes")) if row["tag"] == "tr"][1:]
    assert rows[0].startswith("1 desk – here 100 10 s 50 % – – – – – 120 3 7 0 0 2.0 kB 10 B") and "away" in rows[1]
    assert [one["style"] for one in elements(made.of("places.nodes")) if one["style"]] == [{"--share": "1.000"}, {"--share": "0.250"}]
    assert "net-1 3 3 3 4 12.5 quorum – – – – –" in text(made.of("places.rounds"))
    assert "No task was given out yet" in text(made.of("places.tasks"))
    assert "9 net-1 3 desk invalid norm 2 min 30 s 2.0 kB" in text(page(told, newest=[TASK]).of("places.tasks"))
    assert made.of("asked") == [[path, "Bearer abc"] for path in ("v1/status", "v1/nodes", "v1/rounds", "v1/tasks")]


def test_where_the_time_of_nodes_goes_is_shown_by_run_node_and_round() -> None:
    made = page(
        {**RUN, "utilization": {"nodes": 2, **SPENT}}, nodes=[{**NODE, "utilization": SPENT}], rounds=[{**ROUND, "utilization": SPENT}]
    )
    told = text(made.of("places.runs"))
    for words in ("time computing 61 %", "time transfer 2 %", "time waiting 25 %", "time paused 7 %", "time wasted 5 %"):
        assert f"nodes' {words}" in told
    for place in ("nodes", "rounds"):
        assert "computing transfer waiting paused wasted" in text(made.of(f"places.{place}"))
        assert "61 % 2 % 25 % 7 % 5 %" in text(made.of(f"places.{place}"))
    assert "time computing" not in text(page(RUN).of("places.runs"))  # nobody has reported


@pytest.mark.parametrize("curve", [[], [{"version": 0, "made": 1.0, "loss": 2.0}], [{"version": 0, "made": 1.0, "odd": 2.0}]])
def test_a_curve_may_have_no_or_one_point(curve: list[dict[str, float]]) -> None:
    made = page({**RUN, "curve": curve})
    assert "NaN" not in json.dumps(made.of("places.runs"))
    assert ("No version was tested" in text(made.of("places.runs"))) == (not curve or "loss" not in curve[0])


def test_runs_that_live_come_first_and_old_ones_are_counted() -> None:
    made = page(
        {**RUN, "name": "first", "state": "paused", "why": "by command"},
        *[{**RUN, "name": f"old {number}", "state": "done"} for number in range(13)],
    )
    titles = [text(one) for one in elements(made.of("places.runs")) if one["tag"] == "h3"]
    assert titles[:2] == ["first", "old 12"] and len(titles) == 10
    assert "by command" in text(made.of("places.runs")) and "and 4 older ones" in text(made.of("places.runs"))


def test_names_of_strangers_stay_text() -> None:
    node = {**NODE, "name": HOSTILE, "owner": HOSTILE, "banned": HOSTILE, "active": False}
    run = {**RUN, "name": HOSTILE, "layer": HOSTILE, "state": HOSTILE, "why": HOSTILE, "refused": {HOSTILE: 1}}
    made = page(
        run,
        nodes=[node],
        rounds=[{**ROUND, "name": HOSTILE, "why": HOSTILE}],
        newest=[{**TASK, "run": HOSTILE, "node": HOSTILE, "verdict": HOSTILE}],
    )
    places = [made.of(f"places.{name}") for name in ("figures", "runs", "nodes", "rounds", "tasks", "when")]
    made_of = {one["tag"] for place in places for one in elements(place)}
    assert made_of.isdisjoint({"img", "script", "a", "iframe", "style", "link", "object", "form", "input"})
    assert all(HOSTILE in text(place) for place in places[1:5])
    said = [value for place in places for one in elements(place) for value in one["said"].values()]
    assert not any(HOSTILE in value for value in said)  # nor is a name an attribute that could be a script


@pytest.mark.parametrize(("code", "said"), [(401, "lacks its token"), (503, "does not answer (503)")])
def test_what_was_seen_last_stays_when_the_server_is_gone(code: int, said: str) -> None:
    made = page(RUN)
    before = made.of("places.runs")
    made.answer({}, [], [], code)
    made.again()
    assert said in text(made.of("places.when")) and made.of("places.all")["cls"] == "grid-view stale"
    assert made.of("places.runs") == before
    assert len(made.of("later")) == 1  # and it asks again
    made.answer({"now": 1.0, "nodes": {"known": 0, "active": 0, "trusted": 0, "banned": 0}, "runs": [], "tasks": {}}, [], [])
    made.again()
    assert made.of("places.all")["cls"] == "grid-view" and made.of("places.runs") != before


def test_a_field_that_is_missing_is_noticed() -> None:
    """So that test_the_page_can_show_what_the_server_tells (tests/torch) can fail."""
    run = copy.deepcopy(RUN)
    del run["trust"]
    assert "does not answer" in text(page(run).of("places.when"))
