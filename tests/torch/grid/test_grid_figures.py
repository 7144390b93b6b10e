"""What a grid tells of itself: the status page can show it, and Prometheus can read it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laminar.grid.db import runs, versions
from laminar.grid.server import overview
from laminar.grid.server.pages import prometheus
from laminar.grid.utilization import PARTS
from laminar.train.on_grid import Grid
from tests.pure.grid.test_status_page import Page, elements, text
from tests.torch.grid.crowd import Crowd

HOSTILE = 'a "b" \\ c\n{x="1"} # <i>'


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """Of a grid with honest nodes and liars, in the middle of its work."""
    made = Crowd(["honest"] * 4 + ["scale", "nan"], Grid(workers=4, rounds=50, local_steps=2, deadline=1e6))
    for _ in range(12):
        made.turn()
    made.hall.desk.do(lambda tx: versions.tested(tx, made.run, 1, {"accuracy": 0.5, "loss": 1.25}))
    now = made.hall.now
    found = {name: made.hall.desk.do(lambda tx, tell=tell: tell(tx, now)) for name, tell in LOOKS.items()}  # type: ignore[misc]
    return json.loads(json.dumps(found))  # as it goes over the line


LOOKS = {
    "status": overview.status,
    "nodes": overview.nodes_told,
    "rounds": overview.rounds_told,
    "tasks": overview.tasks_told,
    "company": lambda tx, now: overview.company(tx, runs.all_of(tx, "open")[0], now),
}


def test_the_page_can_show_what_the_server_tells(told: dict[str, Any]) -> None:
    page = Page(told["status"], told["nodes"], told["rounds"], tasks=told["tasks"])
    assert text(page.of("places.when")).startswith("at "), text(page.of("places.when"))
    shown = [page.of(f"places.{name}") for name in ("figures", "runs", "nodes", "rounds", "tasks")]
    everything = json.dumps(shown)
    assert not any(odd in everything for odd in ("NaN", "undefined", "Infinity", "[object"))
    assert len([one for one in elements(shown[2]) if one["tag"] == "tr"]) == 7  # the head, and six nodes
    assert "not finite" in text(shown[1]) and "0.5000" in text(shown[1])


def test_every_task_names_its_run(told: dict[str, Any]) -> None:
    assert told["tasks"] and {one["run"] for one in told["tasks"]} == {told["status"]["runs"][0]["name"]}


def test_who_is_near_and_who_has_had_enough(told: dict[str, Any]) -> None:
    company = told["company"]
    assert company["known"] == 6 and company["near"] == 6 - company["banned"] and company["spent"] == 0


def test_who_has_had_all_bytes_of_the_day_has_had_enough() -> None:
    made = Crowd(["honest"] * 2, Grid(workers=2, rounds=5, local_steps=2, deadline=1e6))
    task = made.take(0)
    assert task is not None
    made.hall.answer(made.ids[0], task.result, made.packed(0, task))
    made.hall.ask(made.ids[1])
    run = made.hall.run(made.run)
    spent = [made.hall.desk.do(lambda tx, most=most: overview.company(tx, run, made.hall.now, most))["spent"] for most in (None, 10, 10**9)]  # type: ignore[misc]
    assert spent == [0, 1, 0]


def test_prometheus_can_read_the_figures(told: dict[str, Any]) -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="pip install 'laminar-train[dev]'")
    status = told["status"]
    status["runs"][0]["name"] = HOSTILE
    status["runs"][0]["utilization"] = {"nodes": 6, "seconds": 9.0, **{part.value: 0.2 for part in PARTS}}
    text = prometheus(status, {"rate": 3, HOSTILE: 1})
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert set(families) == {
        f"laminar_grid_{name}"
        for name in (
            "nodes",
            "results",
            "requests_refused",
            "version",
            "answers",
            "applied",
            "answers_refused",
            "bytes_up",
            "utilization",
            "metric",
        )
    }
    kinds = {name: family.type for name, family in families.items()}
    assert {name for name, kind in kinds.items() if kind == "counter"} == {
        f"laminar_grid_{name}" for name in ("requests_refused", "answers", "applied", "answers_refused", "bytes_up")
    }
    assert all(family.documentation for family in families.values())
    samples = {(one.name, *sorted(one.labels.items())): one.value for family in families.values() for one in family.samples}
    run = status["runs"][0]
    assert samples["laminar_grid_nodes", ("state", "known")] == 6
    assert samples["laminar_grid_bytes_up_total", ("run", HOSTILE)] == run["bytes"]["up"]  # to the byte
    assert samples["laminar_grid_requests_refused_total", ("reason", HOSTILE)] == 1
    assert samples["laminar_grid_metric", ("metric", "accuracy"), ("run", HOSTILE)] == 0.5
    assert sum(value for (name, *_), value in samples.items() if name == "laminar_grid_utilization") == pytest.approx(1.0)
    assert sum(value for (name, *_), value in samples.items() if name == "laminar_grid_answers_refused_total") == sum(
        run["refused"].values()
    )
    assert len(samples) == sum(len(family.samples) for family in families.values())  # none is told twice


@pytest.mark.parametrize("value", [0, 123456789, 0.1, 1e-9, 1e300, float("inf"), float("-inf")])
def test_a_figure_is_told_with_all_its_digits(value: float) -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="pip install 'laminar-train[dev]'")
    text = prometheus({"nodes": {"known": value, "odd": float("nan")}, "tasks": {}, "runs": []}, {})
    (family,) = [one for one in parser.text_string_to_metric_families(text) if one.name == "laminar_grid_nodes"]
    known, odd = (sample.value for sample in family.samples)
    assert known == value and odd != odd
