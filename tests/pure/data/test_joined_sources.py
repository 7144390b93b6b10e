"""source = [a, b]: two sources as one data set, whose classes go by name."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
from data_makers import digits_like, write_images
from PIL import Image
from test_data_errors import refused

from laminar.data.fingerprint import fingerprint
from laminar.data.fragments.virtual import VirtualFragments
from laminar.data.local_sample import local_sample, pull
from laminar.data.open import open_data
from laminar.data.spec import DataSpec, FragmentSpec, SampleSpec, SplitSpec
from laminar.stack.data_since import changed_since
from laminar.testing.source_contract import SourceContract


class TestTwoFolders(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        write_images(folder / "a")
        write_images(folder / "b", classes=("eel", "ant"), mode="L")
        return DataSpec(source=["folder:a", "folder:b"])

    def change(self, folder: Path) -> bool:
        write_images(folder / "b", classes=("eel", "ant"), each=6, mode="L")
        return True


class TestArraysAndATable(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        np.savez(folder / "a.npz", x=np.arange(60, dtype=np.float32).reshape(30, 2), y=np.arange(30) % 3, classes=["cat", "dog", "eel"])
        rows = "".join(f"{i},{i / 2},{'eel' if i % 2 else 'fox'}\n" for i in range(20))
        (folder / "b.csv").write_text("width,height,kind\n" + rows)
        return DataSpec(source=["npz:a.npz", "csv:b.csv"])

    def change(self, folder: Path) -> bool:
        (folder / "b.csv").write_text((folder / "b.csv").read_text().replace("9.5", "9.25"))
        return True


class TestTwoRegressions(SourceContract):
    def make(self, folder: Path) -> DataSpec:
        for name, scale in (("a", 1.0), ("b", 2.0)):
            x = np.linspace(0, scale, 60).reshape(20, 3)
            np.savez(folder / f"{name}.npz", x=x, y=x.sum(axis=1))
        return DataSpec(source=["npz:a.npz", "npz:b.npz"])


def test_classes_go_by_name_in_the_order_of_the_sources(tmp_path: Path) -> None:
    write_images(tmp_path / "a", classes=("dog", "eel"), each=4)
    write_images(tmp_path / "b", classes=("ant", "eel"), each=2)
    data = open_data(DataSpec(source=["folder:a", "folder:b"]), tmp_path)
    assert data.classes == ("dog", "eel", "ant")
    assert np.bincount(np.concatenate([data.train.y, data.test.y])).tolist() == [4, 6, 2]
    turned = open_data(DataSpec(source=["folder:b", "folder:a"]), tmp_path)
    assert turned.classes == ("ant", "eel", "dog")
    chosen = open_data(DataSpec(source=["folder:a", "folder:b"], classes=["ant", "dog"]), tmp_path)
    assert chosen.classes == ("ant", "dog") and len(chosen.train) + len(chosen.test) == 6


def test_samples_are_those_of_each_source_in_its_order(tmp_path: Path) -> None:
    parts = {}
    for name, seed in (("a", 0), ("b", 1)):
        x, y = digits_like(seed=seed)
        np.savez(tmp_path / f"{name}.npz", x_train=x, y_train=y, x_test=x[:8], y_test=y[:8])
        parts[name] = (x, y)
    data = open_data(DataSpec(source=["npz:a.npz", "npz:b.npz"]), tmp_path)
    assert (data.train.x[:, 0] == np.concatenate([parts["a"][0], parts["b"][0]])).all()
    assert (data.train.y == np.concatenate([parts["a"][1], parts["b"][1]])).all()
    assert (data.test.x[8:, 0] == parts["b"][0][:8]).all()


def test_a_grey_source_beside_a_coloured_one_has_three_equal_channels(tmp_path: Path) -> None:
    write_images(tmp_path / "a", classes=("dog", "eel"), each=3)
    write_images(tmp_path / "b", classes=("ant", "bee"), each=3, mode="L")
    data = open_data(DataSpec(source=["folder:b", "folder:a"], split=SplitSpec(test=0.3)), tmp_path)
    assert data.classes is not None and data.sample_shape == (3, 6, 6)
    grey = data.train.x[data.train.y == data.classes.index("ant")]
    assert (grey[:, 0] == grey[:, 1]).all() and (grey[:, 0] == grey[:, 2]).all()
    coloured = data.train.x[data.train.y == data.classes.index("dog")]
    assert (coloured[:, 0] != coloured[:, 1]).any()


def test_fragments_are_cut_from_all_sources_and_a_test_image_stays_one(tmp_path: Path) -> None:
    write_images(tmp_path / "a", classes=("dog", "eel"), each=4, size=20, mode="L")
    write_images(tmp_path / "b", classes=("ant", "eel"), each=4, size=24, mode="L")
    (tmp_path / "b/eel/9.png").write_bytes((tmp_path / "a/eel/0.png").read_bytes())  # one image in both
    spec = DataSpec(source=["folder:a", "folder:b"], fragment=FragmentSpec(size=8, overlap=0.5), sample=SampleSpec(per_class=9, seed=1))
    virtual = VirtualFragments.of(spec, tmp_path)
    assert virtual.classes == ("dog", "eel", "ant")
    assert [sum(side) for side in zip(*([c.images for c in virtual.counts(test=t)] for t in (False, True)), strict=True)] == [4, 9, 4]
    sides: dict[str, set[bool]] = {}
    for file, test in zip(virtual.files, virtual.test.tolist(), strict=True):
        sides.setdefault(file.sha256, set()).add(test)
    assert len(sides) == 16 and all(len(side) == 1 for side in sides.values())
    data, drawn = open_data(spec, tmp_path), local_sample(spec, tmp_path)
    assert data.train.x.shape == (27, 1, 8, 8)
    train = [each for each in drawn.fragments if each["split"] == "train"]
    for pixels, each in zip(data.train.x, train, strict=True):
        kind, _, path = each["source"].partition(": ")
        image = np.asarray(Image.open(tmp_path / kind.removeprefix("folder:") / path))
        assert (pixels[0] == image[each["y"] : each["y"] + 8, each["x"] : each["x"] + 8]).all()
    assert pull(spec, tmp_path).fetched is None


def test_splitting_by_source_keeps_copies_together(tmp_path: Path) -> None:
    write_images(tmp_path / "a", classes=("dog", "eel"), each=6)
    write_images(tmp_path / "b", classes=("dog", "eel"), each=6)  # the same bytes
    data = open_data(DataSpec(source=["folder:a", "folder:b"], split=SplitSpec(by="source", test=0.5)), tmp_path)
    train, test = ({pixels.tobytes() for pixels in side.x} for side in (data.train, data.test))
    assert len(data.train) + len(data.test) == 24 and len(train | test) == 12 and not train & test


def test_the_fingerprint_has_each_source_with_its_classes(tmp_path: Path) -> None:
    write_images(tmp_path / "a", classes=("dog", "eel"))
    write_images(tmp_path / "b", classes=("ant", "eel"))
    spec, cache = DataSpec(source=["folder:a", "folder:b"]), tmp_path / "cache"
    found = fingerprint(spec, tmp_path, cache)
    assert found["source"] == "joined" and found["classes"] == ["dog", "eel", "ant"]
    assert [part["classes"] for part in found["settings"]["parts"]] == [["dog", "eel"], ["ant", "eel"]]
    assert fingerprint(msgspec.structs.replace(spec, source=["folder:b", "folder:a"]), tmp_path, cache) != found
    assert fingerprint(msgspec.structs.replace(spec, grey=True), tmp_path, cache) != found
    alone = fingerprint(DataSpec(source="folder:a"), tmp_path, cache)
    assert fingerprint(DataSpec(source=["folder:a"]), tmp_path, cache) == alone  # a list of one is that one


def test_changed_files_are_named(tmp_path: Path) -> None:
    from laminar.core.clock import FakeClock
    from laminar.data.remember import Memory
    from laminar.data.sources import source_of

    write_images(tmp_path / "a", classes=("dog", "eel"))
    write_images(tmp_path / "b", classes=("ant", "eel"))
    spec, memory = DataSpec(source=["folder:a", "folder:b"]), Memory(tmp_path / "cache", clock=FakeClock(4e9))
    before = source_of(spec, tmp_path).contents(memory).digest
    (tmp_path / "b/ant/2.png").write_bytes((tmp_path / "b/ant/1.png").read_bytes())
    now = source_of(spec, tmp_path).contents(memory).digest
    assert changed_since(spec.sources, tmp_path, memory, before=before, now=now, when=0.0) == ["b/ant/2.png"]


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    write_images(tmp_path / "a", classes=("dog", "eel"))
    write_images(tmp_path / "large", classes=("dog", "eel"), size=9)
    write_images(tmp_path / "own/train", classes=("dog", "eel"))
    write_images(tmp_path / "own/test", classes=("dog", "eel"))
    np.savez(tmp_path / "real.npz", x=np.zeros((20, 3), dtype=np.float32), y=np.linspace(0, 1, 20))
    np.savez(tmp_path / "numbers.npz", x=np.zeros((20, 3, 6, 6), dtype=np.float32), y=np.arange(20) % 2)

    def joined(*sources: str) -> DataSpec:
        return DataSpec(source=list(sources))

    refused(joined(), tmp_path, "L109", "the list is empty")
    refused(joined("folder:a", "folder:a"), tmp_path, "L109", "'folder:a' is named twice")
    refused(
        joined("folder:a", "folder:large"), tmp_path, "L106", "folder:large have shape (3, 9, 9), those of folder:a (3, 6, 6)", "size = 64"
    )
    refused(joined("folder:a", "folder:own"), tmp_path, "L110", "folder:own has a test set of its own and folder:a has none")
    refused(joined("folder:a", "npz:real.npz"), tmp_path, "L110", "npz:real.npz has real-valued targets and folder:a has classes")
    refused(joined("folder:a", "npz:numbers.npz"), tmp_path, "L110", "samples of folder:a are uint8, those of npz:numbers.npz float32")
    refused(joined("folder:a", "folders:b"), tmp_path, "L105", "did you mean 'folder'")
    indexes = joined("index:http://127.0.0.1:9/a/index.json", "index:http://127.0.0.1:9/b/index.json")
    indexes = msgspec.structs.replace(indexes, mirrors=["http://127.0.0.1:9/c"])
    refused(indexes, tmp_path, "L109", "several indexes are joined", "index:URL,URL")
    fragments = msgspec.structs.replace(joined("folder:a", "npz:numbers.npz"), fragment=FragmentSpec(size=4))
    refused(fragments, tmp_path, "L109", "fragment: applies to folder and index sources, not to npz")
