"""The set-ups of the founding paper's tables on a grid of processes: images that nodes cut themselves, and files in CIFAR-10's format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from laminar.experiments.axes import path_of, put
from laminar.experiments.ready.ask import _served
from laminar.experiments.ready.catalogue import parts
from laminar.experiments.ready.form import Ask, Choice
from laminar.experiments.ready.grid_run import GridTrainer, shares_of
from laminar.stack.read import parse
from laminar.store.store import Store

CLASSES = ("bark", "cloth", "sand")


def textures(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for number, name in enumerate(CLASSES):
        (folder / "textures" / name).mkdir(parents=True)
        for image in range(12):
            waves = np.sin(np.arange(96) * (number + 1) / 2)[:, None] * np.ones((1, 96))
            pixels = 127 + 60 * waves + rng.normal(0, 20, (96, 96))
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / "textures" / name / f"{image}.png")


def cifar10(folder: Path) -> None:
    """As its makers send it: a label and 3,072 bytes for each image."""
    rng, place = np.random.default_rng(0), folder / "cifar10" / "cifar-10-batches-bin"
    place.mkdir(parents=True)
    for name, count in (*((f"data_batch_{i}.bin", 1_200) for i in range(1, 6)), ("test_batch.bin", 2_700)):
        rows = rng.integers(0, 256, (count, 3_073), np.uint8)
        rows[:, 0] = np.arange(count) % 10
        rows.tofile(place / name)
    (place / "batches.meta.txt").write_text("\n".join(f"class {i}" for i in range(10)) + "\n")


@pytest.mark.slow
@pytest.mark.parametrize(("data", "make", "samples"), [("textures", textures, (2_001, 900)), ("cifar10", cifar10, (6_000, 2_700))])
def test_nodes_train_and_test_on_local_samples(
    data: str, make: object, samples: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One short round; the rest is as the experiment has it."""
    assert callable(make)
    make(tmp_path)
    monkeypatch.setenv("LAMINAR_DATA", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    ready = parts("grid", Ask(data=data))[0]
    sync: Choice = ready.choices[0]
    strategy = {**sync.settings["strategy"], "workers": 2, "rounds": 1, "local_steps": 2, "replicate": "never"}
    (tmp_path / "store").mkdir()
    store = Store.open(tmp_path / "store", create=True)
    trainer = GridTrainer(*(["--allow-private"] if ready.images else []))
    try:
        with _served(ready) as stack:
            file = parse(stack, tmp_path / "laminar.toml")
            settings = {**sync.settings, "strategy": strategy}
            raw = put(file.raw, "net", settings, {name: path_of(name, file, "net") for name in settings})
            found = trainer.ask({"file": {"raw": raw}, "layer": "net", "store": str(store.root)}, lambda _: None)
    finally:
        trainer.close()
    figures = found["done"]["metrics"]
    assert (figures["local_train"], figures["local_test"]) == samples
    assert figures["iterations"] == 1 and figures["nodes"] in (1, 2) and 0 <= figures["accuracy"] <= 1
    assert figures["computing"] + figures["waiting"] + figures["wasted"] <= 1 + 1e-9 and figures["computing"] > 0


@pytest.mark.parametrize(("cores", "wanted"), [(2, ["16%"] * 4 + ["4%"]), (64, ["4%"] * 4 + ["1%"])])
def test_nodes_of_different_speeds_need_no_more_than_there_is(cores: int, wanted: list[str]) -> None:
    assert list(shares_of((4.0, 4.0, 4.0, 4.0, 1.0), cores)) == wanted
