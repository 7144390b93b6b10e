"""Layers of a real build asked about samples: as good as `evaluate` says, with pictures, and errors where one cannot be asked."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

from laminar.dashboard.judge_process import Asked, judge, shown
from laminar.stack.project import open_project
from laminar.stack.use import evaluate
from tests.conftest import Example


def test_it_agrees_with_evaluate_and_shows_pictures(built: Example) -> None:
    store = built.store()
    id = store.refs.get("digits/head")
    built.edit("laminar.toml", "seed = 0, threads = 1 }   # quick", "seed = 1, threads = 1 }")
    built.build()
    other, strokes = store.refs.get("digits/head"), store.refs.get("digits/strokes")
    told: list[Any] = []
    found = judge(Asked(start=str(built.root), ids=[id, other, strokes], data="odd"), lambda *words: told.append(words))
    project = open_project(built.root)
    for layer, one in zip((id, other), found.layers, strict=False):
        exact = evaluate(project, store, layer, "odd")
        assert one.metrics["accuracy"] == exact.metrics["accuracy"] and abs(one.metrics["loss"] - exact.metrics["loss"]) < 1e-6
        assert sum(map(sum, one.matrix)) == exact.samples == found.used == found.all
        assert sum(one.matrix[i][i] for i in range(5)) == round(exact.metrics["accuracy"] * exact.samples)
    assert found.layers[2].error is not None and found.layers[2].error["code"] == "L104", "it knows other classes, and the others are told"
    samples = [sample for group in found.groups for sample in group.samples]
    assert sum(group.count for group in found.groups) <= found.used and samples
    picture = samples[0].picture
    assert picture is not None and picture.startswith("data:image/png;base64,")
    assert min(Image.open(io.BytesIO(base64.b64decode(picture.partition(",")[2]))).size) >= 32
    assert all(len(sample.said) == 2 for sample in samples) and told[-1][1:] == (3, 4)


def test_what_is_no_picture_is_shown_by_its_first_values() -> None:
    assert shown(np.arange(20, dtype=np.float32)) == (None, [float(i) for i in range(8)])
    assert shown(np.zeros((3, 2, 9), np.uint8))[0] is None, "too small to be looked at"
