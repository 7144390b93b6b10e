"""Did you mean: a word with a slip of the hand is found; one that only shares letters is not offered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.core.nearest import did_you_mean, nearest

KEYS = ["epochs", "batch", "optimizer", "lr", "weight_decay", "seed", "momentum", "schedule", "threads", "dtype"]
VERBS = ["build", "push", "pull", "log", "gc", "show", "rollback", "redo", "plan", "tag"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("epoch", "epochs"), ("ephocs", "epochs"), ("optimiser", "optimizer"), ("weightdecay", "weight_decay"),
        ("batch_size", "batch"), ("momentm", "momentum"), ("sed", "seed"), ("scheduler", "schedule"), ("thread", "threads"),
    ],
)  # fmt: skip
def test_a_slip_is_found(word: str, meant: str) -> None:
    assert nearest(word, KEYS) == meant


@pytest.mark.parametrize(
    ("word", "valid"), [("runs", VERBS), ("list", VERBS), ("lists", ["digits"]), ("learning_rate", ["warmup", "patience"])]
)
def test_a_word_that_only_shares_letters_is_not_offered(word: str, valid: list[str]) -> None:
    assert nearest(word, valid) is None
    assert did_you_mean(word, valid).startswith("known: ")


@given(st.text(max_size=12), st.lists(st.text(max_size=12), max_size=8))
def test_the_word_itself_is_never_offered(word: str, valid: list[str]) -> None:
    assert nearest(word, [*valid, word]) != word
    assert f"did you mean '{word}'" not in did_you_mean(word, [*valid, word])
