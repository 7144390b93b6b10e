"""Data of a task comes from mirrors: each node draws a random, balanced sample of fragments of its own, and fetches what that needs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from laminar.core.errors import LaminarError
from laminar.data.make_index import write_index
from laminar.data.sources import index
from laminar.data.spec import DataSpec, FragmentSpec, SampleSpec
from laminar.grid.describe import version_of
from laminar.train.on_grid import Grid
from tests.multi.data.mirror_servers import Mischief, naughty_http
from tests.torch.grid.test_node_worker import change_in, job, node, task

CLASSES, IMAGES, PER_CLASS, SOURCES = ("bark", "brick", "cloth"), 8, 12, 2


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Mischief, str]]:
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path / "cache"))
    dice = np.random.default_rng(5)
    files: dict[str, bytes] = {}
    for label in CLASSES:
        for i in range(IMAGES):
            path = tmp_path / "images" / label / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(dice.integers(0, 256, (24, 24), dtype=np.uint8)).save(path)
            files[f"{label}/{i}.png"] = path.read_bytes()
    write_index(tmp_path / "images", tmp_path / "index.json")
    mischief = Mischief(files=files | {"index.json": (tmp_path / "index.json").read_bytes()})
    with naughty_http(mischief) as url:
        yield mischief, url


def images_asked(mischief: Mischief) -> set[str]:
    found = {path for path, _ in mischief.asked if path != "index.json"}
    mischief.asked.clear()
    return found


def test_each_node_draws_its_own_sample_of_fragments_and_fetches_no_more(mirror: tuple[Mischief, str], tmp_path: Path) -> None:
    mischief, url = mirror
    sha256 = hashlib.sha256(mischief.files["index.json"]).hexdigest()
    spec = DataSpec(
        source=f"index:{url}/index.json#sha256={sha256}",
        mirrors=["http://127.0.0.1:9", url],  # at the first nobody is there
        grey=True,
        fragment=FragmentSpec(size=8, overlap=0.5, rotate=90),
        sample=SampleSpec(per_class=PER_CLASS, seed=1, sources=SOURCES),
    )
    made, described = job(tmp_path, Grid(local_steps=2), spec, batch=9)
    version = version_of(made)
    images_asked(mischief)
    fetched, samples, changes = [], [], []
    for i, seed in enumerate((7, 7, 8)):
        here, worker = node(tmp_path / str(i), described, version, allow_private=True, samples=[seed])
        said = worker.do(task(described, version, steps=2, sample=seed))
        (data,) = worker._data.values()
        assert said["samples"] == 18 and np.bincount(data.train.y).tolist() == [PER_CLASS] * len(CLASSES)
        fetched.append(images_asked(mischief))
        samples.append(data.train.x)
        changes.append(change_in(here, described)[0])
    assert 0 < len(fetched[0]) < len(CLASSES) * IMAGES  # some images of a class, not all
    assert (samples[0] == samples[1]).all() and (changes[0] == changes[1]).all()  # whoever is given the same task does the same
    assert not (samples[0] == samples[2]).all() and not (changes[0] == changes[2]).all()


def test_mirrors_in_the_owners_own_network_are_not_called_for_strangers(mirror: tuple[Mischief, str], tmp_path: Path) -> None:
    """Also where the same index was fetched before by the owner himself: what only he could fetch is not for strangers."""
    mischief, url = mirror
    spec = DataSpec(
        source=f"index:{url}/index.json",
        grey=True,
        fragment=FragmentSpec(size=8, overlap=0.5, rotate=90),
        sample=SampleSpec(per_class=PER_CLASS, seed=1, sources=SOURCES),
    )
    made, described = job(tmp_path, Grid(local_steps=2), spec, batch=9)
    version = version_of(made)
    images_asked(mischief)
    mischief.connections = 0
    index._recent.clear()
    with pytest.raises(LaminarError, match=r"not a public one.*--allow-private") as caught:
        node(tmp_path / "n", described, version, samples=[7])
    assert caught.value.code == "L112" and mischief.connections == 0
    _, allowed = node(tmp_path / "n", described, version, allow_private=True, samples=[7])
    assert allowed.do(task(described, version, steps=2, sample=7))["samples"] == 18 and mischief.connections > 0


def test_a_node_cuts_fragments_of_two_indexes_that_are_joined(mirror: tuple[Mischief, str], tmp_path: Path) -> None:
    """Classes of one place and classes of another: what the sample of a task is drawn from is both."""
    mischief, url = mirror
    dice = np.random.default_rng(6)
    files: dict[str, bytes] = {}
    for i in range(IMAGES):
        path = tmp_path / "own" / "mine" / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(dice.integers(0, 256, (24, 24), dtype=np.uint8)).save(path)
        files[f"mine/{i}.png"] = path.read_bytes()
    write_index(tmp_path / "own", tmp_path / "own.json")
    other = Mischief(files=files | {"index.json": (tmp_path / "own.json").read_bytes()})
    with naughty_http(other) as second:
        spec = DataSpec(
            source=[f"index:{url}/index.json", f"index:http://127.0.0.1:9/index.json,{second}/index.json"],
            grey=True,
            fragment=FragmentSpec(size=8, overlap=0.5, rotate=30, edge="inside"),
            sample=SampleSpec(per_class=PER_CLASS, seed=1, sources=SOURCES),
        )
        made, described = job(tmp_path, Grid(local_steps=2), spec, batch=9)
        assert made.data.classes == (*CLASSES, "mine")
        version = version_of(made)
        images_asked(mischief), images_asked(other)
        _, worker = node(tmp_path / "n", described, version, allow_private=True, samples=[8])
        assert worker.do(task(described, version, steps=2, sample=8))["samples"] == 18
        (data,) = worker._data.values()
        assert np.bincount(data.train.y).tolist() == [PER_CLASS] * 4
        index._recent.clear()
        with pytest.raises(LaminarError, match=r"not a public one.*--allow-private"):
            node(tmp_path / "careful", described, version, samples=[9])
