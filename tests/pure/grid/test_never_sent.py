"""Runs that are too short for what their answers leave out are told so, with a sparsity that they are long enough for."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.grid.never_sent import never_sent
from laminar.grid.settings import Settings
from laminar.train.compression import AnyCompression, Dgc, Fp16, Int8, NoCompression, TopK
from laminar.train.on_grid import Grid
from laminar.train.recipe import Recipe


def settings(compress: AnyCompression, *, rounds: int, batches: int = 100, **how: Any) -> Settings:
    recipe = Recipe(epochs=10, batch=32, optimizer="sgd", lr=0.1, seed=0, strategy=Grid(compress=compress, rounds=rounds, **how))
    return Settings(
        recipe=recipe,
        rounds=rounds,
        batches=batches,
        epoch_samples=32 * batches,
        local=False,
        parameters={"weight": (10, 10)},
        buffers=0,
        gradients=False,
    )


def test_async_answers_are_shared_out_among_nodes() -> None:
    told = never_sent(settings(Dgc(sparsity=0.95, warmup_epochs=0), rounds=50, workers=6, mode="async"))
    assert told == (
        "a node answers about 8 times, and in all that it sends at most 41.7% of the values, and the rest is lost: "
        "sparsity = 0.76 sends each about twice"
    )
    assert never_sent(settings(Dgc(sparsity=0.95, warmup_epochs=0), rounds=50, workers=6, mode="async", buffer=2)) == ""


def test_in_rounds_every_node_answers_each() -> None:
    assert never_sent(settings(TopK(sparsity=0.992), rounds=100, workers=5)) == ""
    told = never_sent(settings(TopK(sparsity=0.999), rounds=100, workers=5))
    assert "about 100 times" in told and "at most 10.0% of" in told and "sparsity = 0.98 " in told


def test_a_warm_up_counts_as_far_as_the_run_gets_into_it() -> None:
    """An epoch is 10 tasks, 5 for each node: of these 1/4 of the values, then 1/16, 1/64, 1/256 go up, and 1/1000 of the others."""
    short = settings(Dgc(), rounds=1, workers=2, local_steps=10)
    assert "about once, and in all that it sends at most 25.0% of" in never_sent(short)
    assert never_sent(settings(Dgc(), rounds=5, workers=2, local_steps=10)) == ""
    assert "at most 10.0% of" in never_sent(settings(Dgc(warmup_epochs=0), rounds=100, workers=2, local_steps=10))
    assert never_sent(settings(Dgc(), rounds=100, workers=2, local_steps=10)) == ""


@pytest.mark.parametrize("compress", [NoCompression(), Fp16(), Int8()])
def test_answers_that_leave_nothing_out_lose_nothing(compress: AnyCompression) -> None:
    assert never_sent(settings(compress, rounds=1, workers=50)) == ""


@given(st.integers(1, 2000), st.integers(1, 50), st.sampled_from(["rounds", "async"]), st.floats(0.5, 0.9999))
def test_what_is_advised_is_not_warned_about(rounds: int, workers: int, mode: str, sparsity: float) -> None:
    told = never_sent(settings(Dgc(sparsity=sparsity, warmup_epochs=0), rounds=rounds, workers=workers, mode=mode))
    if found := re.search(r"sparsity = ([0-9.]+) ", told):
        better = Dgc(sparsity=float(found[1]), warmup_epochs=0)
        assert better.sparsity < sparsity
        assert never_sent(settings(better, rounds=rounds, workers=workers, mode=mode)) == ""
    else:
        assert told == "" or 'compress = "int8"' in told
