"""Splits and limits: cover, no overlap, every class on both sides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.data.count import at_most_training_samples, training_samples
from laminar.data.fingerprint import fingerprint
from laminar.data.open import open_data
from laminar.data.samples import sample_digests
from laminar.data.spec import DataSpec, SplitSpec
from laminar.data.split import limit_indices, split_indices

few = settings(derandomize=True, max_examples=60, deadline=None)
labels = st.lists(st.integers(0, 5), min_size=1, max_size=120).map(lambda v: np.array(v, dtype=np.int64))
parts = st.floats(0.05, 0.95)


@few
@given(labels, parts, st.integers(0, 9))
def test_a_split_covers_without_overlap_and_by_class(y: np.ndarray, part: float, seed: int) -> None:
    train, test = split_indices(y, part, seed, stratified=True)
    assert sorted([*train, *test]) == list(range(len(y)))
    for label in np.unique(y):
        there, held = int((y == label).sum()), int((y[test] == label).sum())
        if there == 1:
            assert held == 0
        else:
            assert 1 <= held <= there - 1
            assert abs(held - there * part) <= 1


@few
@given(labels, parts, st.integers(0, 9))
def test_the_same_seed_gives_the_same_split(y: np.ndarray, part: float, seed: int) -> None:
    for stratified in (True, False):
        one, two = (split_indices(y, part, seed, stratified=stratified) for _ in range(2))
        assert all((a == b).all() for a, b in zip(one, two, strict=True))


@few
@given(labels, st.integers(0, 9))
def test_another_choice_of_classes_moves_no_sample(y: np.ndarray, seed: int) -> None:
    """What is tested under `classes = [0, 2, 4]` must not have been trained on under all classes."""
    _, test = split_indices(y, 0.3, seed, stratified=True)
    some = np.flatnonzero(y % 2 == 0)
    _, test_of_some = split_indices(y[some], 0.3, seed, stratified=True)
    assert set(some[test_of_some]) == {i for i in test if y[i] % 2 == 0}


@few
@given(labels, st.integers(0, 9), st.data())
def test_a_limit_keeps_every_class_and_proportions(y: np.ndarray, seed: int, data: st.DataObject) -> None:
    kinds = len(np.unique(y))
    limit = data.draw(st.integers(kinds, 130))
    kept = limit_indices(y, limit, seed, stratified=True, label="limit")
    assert len(kept) == min(limit, len(y))
    assert len(set(kept.tolist())) == len(kept)
    assert len(np.unique(y[kept])) == kinds
    for label in np.unique(y):
        there = int((y == label).sum())
        assert int((y[kept] == label).sum()) <= there


def test_a_known_split_stays_as_it_is() -> None:
    """Splits are part of keys: a changed one would be a silent change of every layer trained on it."""
    _, test = split_indices(np.arange(20) % 2, 0.3, 0, stratified=True)
    assert test.tolist() == GOLDEN_SPLIT


GOLDEN_SPLIT = [3, 8, 12, 14, 17, 19]


def test_train_and_test_of_opened_data_share_no_sample() -> None:
    data = open_data(DataSpec(source="digits", split=SplitSpec(test=0.25, seed=3)), Path())
    train, test = (set(map(bytes, sample_digests(s.x))) for s in (data.train, data.test))
    assert len(data.train) + len(data.test) == 1797
    assert not train & test
    assert abs(len(data.test) - 1797 / 4) < 6


def test_a_limit_is_a_part_of_the_unlimited_data() -> None:
    whole, some = (open_data(DataSpec(source="digits", limit=limit), Path()) for limit in (None, 200))
    assert len(some.train) == 200
    assert len(some.test) == round(len(whole.test) * 200 / len(whole.train))
    assert set(map(bytes, sample_digests(some.train.x))) <= set(map(bytes, sample_digests(whole.train.x)))
    assert set(map(bytes, sample_digests(some.test.x))) <= set(map(bytes, sample_digests(whole.test.x)))


def test_regression_is_split_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.arange(50.0)[:, None], y=np.arange(50.0))
    data = open_data(DataSpec(source="npz:d.npz", limit=20), tmp_path)
    assert data.task == "regression"
    assert data.train.y.shape == (20, 1)
    assert len(data.test) == 5
    assert (data.train.x == data.train.y).all()


def test_the_number_of_training_samples_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anybody has opened the data, only a limit is known, or what comes with Laminar."""
    spec, limited = (DataSpec(source="glyphs", args={"count": 50}, limit=limit) for limit in (None, 30))
    content, other = (fingerprint(one, tmp_path, tmp_path) for one in (spec, limited))
    assert at_most_training_samples(spec, content, tmp_path, tmp_path) is None
    assert at_most_training_samples(limited, other, tmp_path, tmp_path) == 30
    assert training_samples(spec, content, tmp_path, tmp_path) == len(open_data(spec, tmp_path).train) < 50
    monkeypatch.setattr("laminar.data.open.open_data", None)  # nobody opens them again
    assert training_samples(spec, content, tmp_path, tmp_path) == at_most_training_samples(spec, content, tmp_path, tmp_path)
    monkeypatch.undo()
    digits = DataSpec(source="digits")
    assert at_most_training_samples(digits, fingerprint(digits, tmp_path, tmp_path), tmp_path, tmp_path) == 1438
