"""`laminar experiment layers`: every part of the development is a layer in the store, trained once, and the last again after the change."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.core.events import Event
from laminar.experiments import files
from laminar.experiments.lineage import lineage
from laminar.experiments.ready.ask import Answer, Limits, answers
from laminar.experiments.ready.form import Ask
from laminar.experiments.statistics import summary
from laminar.stack.project import open_project
from laminar.store.gc import plan_gc

PARTS = ("strokes", "shapes", "digits")


def developed(folder: Path, events: list[Event] | None = None, **more: int) -> Answer:
    ask = Ask(data="digits", epochs=more.pop("epochs", 1), even_if_busy=True)
    emit = (lambda _: None) if events is None else events.append
    (found,) = answers("layers", ask, open_project(folder), Limits(workers=1, **more), emit)
    return found


@pytest.mark.usefixtures("warm_workers")
def test_the_parts_of_a_development(tmp_path: Path) -> None:
    some = developed(tmp_path, trials=3)  # the budget of one go
    assert summary(some.description, some.trials).done == 3
    events: list[Event] = []
    found = developed(tmp_path, events)
    shown = summary(found.description, found.trials)
    assert found.trials[: len(some.trials)] == some.trials  # nothing is run twice
    assert (shown.done, shown.planned, shown.failures) == (7, 7, ())
    trained = [event["layer"] for event in events if event["event"] == "start"]
    assert trained == ["digits", "classic", "digits"]  # what it stands on was found in the store

    labels = {one.id: one.label for one in found.description.variants}
    by_label = {labels[one.variant]: one for one in found.trials if one.counted}
    whole = by_label.pop("layered, all three")
    store = open_project(tmp_path).open_store()
    assert all(store.complete(one.layer) and len(one.curve) == 1 for one in by_label.values())
    assert len({one.layer for one in by_label.values()}) == 6
    assert list(store.refs.names()) == []
    assert not set(plan_gc(store, grace=0.0).layers) & {one.layer for one in found.trials}
    digits = store.layer(by_label["layered: digits"].layer)
    assert digits.parent == by_label["layered: shapes"].layer
    assert by_label["layered, changed: digits"].layer != digits.id
    classic, strokes, changed = lineage(store, list(by_label.values()))
    assert (classic.above, changed.above) == ([], [])
    (shapes,) = strokes.above
    assert [labels[one.leaf] for one in (strokes, shapes, *shapes.above)] == [
        "layered: strokes",
        "layered: shapes",
        "layered: digits",
        "layered, changed: digits",
    ]

    assert whole.sum_of == tuple(by_label[f"layered: {part}"].variant for part in PARTS)
    assert whole.seconds == pytest.approx(sum(by_label[f"layered: {part}"].seconds for part in PARTS))
    assert (whole.layer, whole.metrics["accuracy"]) == ("", by_label["layered: digits"].metrics["accuracy"])
    assert shown.seconds == pytest.approx(sum(one.wall for one in found.trials if one is not whole))
    assert len(shown.statements) == 8
    with pytest.raises(LaminarError, match="there is an experiment 'layers' already") as caught:
        developed(tmp_path, epochs=2)
    assert caught.value.code == "L020"
    assert files.remove(store, "layers") == 7  # the warm-up's too


def test_a_layer_belongs_to_the_stack_at_hand(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="--layer head: the built-in stack has one layer"):
        list(answers("cores", Ask(layer="head"), open_project(tmp_path)))


@pytest.mark.parametrize("name", ["neurons", "layers"])
def test_data_that_is_not_to_be_had_is_said_with_what_needs_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in ("fashion-mnist", "mnist"):
        (tmp_path / "data" / data).mkdir(parents=True)
    monkeypatch.setenv("LAMINAR_DATA", str(tmp_path / "data"))
    with pytest.raises(LaminarError, match="mnist is not to be had") as caught:
        list(answers(name, Ask(), open_project(tmp_path)))
    assert "--data digits" in (caught.value.hint or "")
