"""What else differs between variants is listed, and warned of where it is more than what was asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up_trials import description

from laminar.core.errors import LaminarError
from laminar.experiments.axes import path_of, put, told
from laminar.experiments.differences import difference_words, differences, facts_of
from laminar.experiments.ready.catalogue import parts
from laminar.experiments.ready.form import Ask
from laminar.experiments.record import Description
from laminar.experiments.spec import Sweep, VariantSpec
from laminar.experiments.variants import axes_of, describe, variant_of
from laminar.stack.read import parse
from laminar.store.store import Store
from laminar.train.recipe import Recipe

STACK = """\
[stack]
name = "s"
[data.d]
source = "digits"
[[layer]]
name = "net"
model = "laminar:mlp"
data = "d"
train = { epochs = 1, batch = 64, optimizer = "adam", threads = 1 }
"""


def made(*variants: tuple[dict[str, Any], Recipe, str | None]) -> Description:
    known = [variant_of(settings) for settings, _, _ in variants]
    names = dict.fromkeys(name for settings, _, _ in variants for name in settings)
    values = {name: [settings[name] for settings, _, _ in variants if name in settings] for name in names}
    return description(
        values,
        variants=tuple(known),
        benchmark=known[0].id,
        facts={one.id: facts_of(recipe, on, cores=4) for one, (_, recipe, on) in zip(known, variants, strict=True)},
    )


def recipe(**more: Any) -> Recipe:
    return Recipe(**{"epochs": 1, "threads": 1, **more})


def words(found: Description) -> list[str]:
    return list(difference_words(found, found.variants))


def test_facts_of_a_training() -> None:
    facts = facts_of(recipe(strategy="downpour"), None, cores=4)
    assert (facts["where"], facts["strategy"], facts["checkpoints"]) == ("local", "downpour", "every 30 s")
    slow = facts_of(recipe(checkpoint_steps=500, checkpoint_write_seconds=20.0, checkpoint_seconds=1e9), "ray", cores=4)
    assert (slow["where"], slow["checkpoints"]) == ("ray", "every 500 steps, 20 s or more each")
    assert facts_of(Recipe(epochs=1), None, cores=4)["threads in all"] == 4
    assert facts_of(Recipe(epochs=1), "ray", cores=4)["threads in all"] == "as its machines have cores"


def test_what_an_axis_says_is_not_said_again() -> None:
    found = made(({"batch": 32}, recipe(batch=32), None), ({"batch": 64}, recipe(batch=64), None))
    assert differences(found, found.variants) is None
    assert words(found) == []


def test_what_it_does_not_say_is_listed_and_warned_of() -> None:
    """The machines of a cluster have as many threads as they have cores, where the recipe says nothing."""
    found = made(({"on": "local"}, Recipe(epochs=1), "local"), ({"on": "ray"}, Recipe(epochs=1), "ray"))
    table = differences(found, found.variants)
    assert table is not None and table.columns == ("variant", "where", "threads in all")
    assert [row["threads in all"] for row in table.rows] == [4, "as its machines have cores"]
    assert words(found) == [
        "warning: variants differ from the benchmark in what no axis says: on ray (threads in all): what they show may come from any of it"
    ]
    controlled = made(({"on": "local"}, recipe(), "local"), ({"on": "ray"}, recipe(), "ray"))
    assert words(controlled) == [] and differences(controlled, controlled.variants) is None


def test_points_of_a_product_may_differ_along_several_axes() -> None:
    some = [({"batch": b, "lr": r}, recipe(batch=b, lr=r), None) for b in (32, 64) for r in (0.1, 0.2)]
    whole = made(*some)
    product = description({"batch": [32, 64], "lr": [0.1, 0.2]}, facts=whole.facts)
    assert words(product) == []


def test_listed_variants_that_differ_in_more_than_one_thing_are_named() -> None:
    found = made(
        ({"batch": 32, "lr": 0.1}, recipe(batch=32, lr=0.1), None),
        ({"batch": 64, "lr": 0.2}, recipe(batch=64, lr=0.2), None),
        ({"batch": 32, "lr": 0.3}, recipe(batch=32, lr=0.3), None),
    )
    (said,) = words(found)
    assert "in more than one thing: batch 64, lr 0.2 (batch, lr): what" in said


def test_flowers_on_other_places() -> None:
    _, one, _ = parts("flowers", Ask(single="ray", cluster="spark://h:7077", workers=4))
    assert [choice.settings["on"] for choice in one.choices] == ["local", "ray", "ray", "spark://h:7077"]
    assert one.choices[3].label == "master, 4 workers, 2 servers" and not one.choices[3].published
    assert (one.choices[3].settings["strategy"]["workers"], one.choices[3].settings["strategy"]["shards"]) == (4, 2)
    assert any("Single node: ray; workers: spark://h:7077, their servers on this machine" in note for note in one.notes)
    assert not any("on" in choice.settings for part in parts("flowers", Ask()) for choice in part.choices)


def test_a_place_is_nothing_of_the_stack(tmp_path: Path) -> None:
    file = parse(STACK, tmp_path / "laminar.toml")
    assert path_of("on", file, "net") == "on"
    assert put(file.raw, "net", {"on": "ray", "lr": 0.1}, {"lr": "layer.net.train.lr", "on": "on"})["layer"][0]["train"]["lr"] == 0.1
    assert told("on", "ray") == "on ray"
    store = Store.open(tmp_path / "store")
    described = describe(Sweep(name="x", axes={"on": ["local", "agents"]}), file, store)
    assert [described.facts[one.id]["where"] for one in described.variants] == ["local", "agents"]
    assert len(set(described.inputs.values())) == 1  # they learn the same
    assert axes_of(Sweep(name="x", axes={"on": ["local"]}), file, "net")[0].path == "on"


@pytest.mark.parametrize(("place", "code"), [("lokal", "L008"), (3, "L016")])
def test_a_place_that_is_none_is_told_before_anything_is_run(tmp_path: Path, place: Any, code: str) -> None:
    file = parse(STACK, tmp_path / "laminar.toml")
    for sweep in (Sweep(name="x", axes={"on": ["local", place]}), Sweep(name="x", variant=[VariantSpec(settings={"on": place})])):
        with pytest.raises(LaminarError) as caught:
            describe(sweep, file, Store.open(tmp_path / "store"))
        assert caught.value.code == code
