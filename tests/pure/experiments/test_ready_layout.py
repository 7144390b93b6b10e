"""Layouts of data: every form gives the same batches, and the cache lines that one touches are those of the arithmetic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from laminar.data.dataset import Split
from laminar.experiments.ready import layout_run
from laminar.experiments.ready.ask import answers
from laminar.experiments.ready.catalogue import parts
from laminar.experiments.ready.form import Ask
from laminar.experiments.ready.layout import BYTES, FEATURE, FLOATS, IN_TURN, LAMINAR, SAMPLE, SHUFFLED
from laminar.experiments.ready.layout_run import fetching
from laminar.experiments.ready.shape import parameters, width_of
from laminar.stack.project import open_project


def data(samples: int = 256, features: int = 128) -> Split:
    rng = np.random.default_rng(1)
    return Split(rng.integers(0, 256, (samples, 1, features // 8, 8), dtype=np.uint8), np.zeros(samples, dtype=np.int64))


def test_cache_lines_of_every_form() -> None:
    """128 bytes a sample are two lines, if it begins at one."""
    touched = {
        (form, by, order): fetching(data(), 64, form, by, order)[1]
        for form in (BYTES, FLOATS)
        for by in (SAMPLE, FEATURE)
        for order in (SHUFFLED, IN_TURN)
    }
    assert touched[BYTES, SAMPLE, SHUFFLED] == touched[BYTES, SAMPLE, IN_TURN] == 64 * 128
    assert touched[FLOATS, SAMPLE, SHUFFLED] == 4 * 64 * 128
    assert touched[BYTES, FEATURE, IN_TURN] == 128 * 64  # of every feature one line
    assert touched[BYTES, FEATURE, SHUFFLED] == 128 * 256  # all of the data: of 4 lines none is without a sample of the batch
    assert touched[FLOATS, FEATURE, IN_TURN] == 128 * 256
    assert fetching(data(features=104), 64, BYTES, SAMPLE, SHUFFLED)[1] > 64 * 128  # samples that begin anywhere have more lines


@pytest.mark.parametrize("form", [BYTES, FLOATS])
@pytest.mark.parametrize("by", [SAMPLE, FEATURE])
@pytest.mark.parametrize("order", [SHUFFLED, IN_TURN])
def test_every_form_gives_the_batches_of_all_others(form: str, by: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []
    as_float = layout_run.as_float

    def watched(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        found = as_float(x, out=out)
        if out is not None:
            made.append(found.tobytes())
        return found

    monkeypatch.setattr(layout_run, "as_float", watched)
    split = data(samples=150)
    fetch, _ = fetching(split, 64, form, by, order)
    assert fetch(3) == 2 == len(made)  # a batch that is not whole is left out
    rows = np.arange(150) if order == IN_TURN else layout_run.permutation(150, 0, "layout", 3)
    flat = split.x.reshape(150, -1)
    assert made == [as_float(np.ascontiguousarray(flat[rows[i : i + 64]])).tobytes() for i in (0, 64)]


def test_laminar_makes_its_batches() -> None:
    fetch, touched = fetching(data(samples=150), 64, LAMINAR)
    assert (fetch(0), touched) == (3, 64 * 128)


def test_it_runs_and_its_figures_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_run, "QUICK_LOOK", 0.002)
    monkeypatch.chdir(tmp_path)
    ask = Ask(quick=True, data="digits", repeats=1, command="laminar experiment layout")
    (answer,) = answers("layout", ask, open_project())
    assert [one.outcome for one in answer.trials] == ["done"] * 10  # and one to warm up
    assert all(one.metrics["batches_per_second"] > 0 for one in answer.trials)
    (again,) = answers("layout", ask, open_project())
    assert again.trials == answer.trials  # nothing is run twice


@pytest.mark.parametrize("ask", [Ask(), Ask(quick=True), Ask(data="digits")])
def test_shapes_have_as_many_parameters(ask: Ask) -> None:
    (one,) = parts("shape", ask)
    inputs = 64 if ask.data == "digits" else 784
    sizes = [parameters(inputs, choice.settings["depth"], choice.settings["neurons"]) for choice in one.choices]
    assert all(abs(size / sizes[0] - 1) < 0.02 for size in sizes)
    assert parameters(784, 1, 512) == 784 * 512 + 512 + 512 * 10 + 10
    assert width_of(784, 1, parameters(784, 1, 512)) == 512
    assert width_of(784, 3, parameters(784, 3, 100)) == 100
