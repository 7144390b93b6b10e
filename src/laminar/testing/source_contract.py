"""What every source of data must do. A plug-in's test inherits from SourceContract and says how its source is made.

class TestMySource(SourceContract):
    def make(self, folder): ...            # put the data into `folder`, return the DataSpec that opens it
    def change(self, folder): ...          # change one value of one sample
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from laminar.core import digest
from laminar.core.clock import FakeClock
from laminar.data.augment_fit import sides_of
from laminar.data.dataset import Dataset
from laminar.data.fingerprint import fingerprint
from laminar.data.open import open_data
from laminar.data.remember import Memory
from laminar.data.room import Room
from laminar.data.sources import source_of
from laminar.data.sources.protocol import Opening
from laminar.data.spec import DataSpec, SplitSpec

LATER = 4e9  # seconds: a clock for which every file has been at rest for long


class SourceContract:
    """Abstract: `make` must be given, `change` where the data can change."""

    def make(self, folder: Path) -> DataSpec:
        raise NotImplementedError

    def change(self, folder: Path) -> bool:  # noqa: ARG002
        """Change the data that `make` put there; False where a source cannot change."""
        return False

    def _project(self, tmp_path: Path, name: str = "project") -> tuple[DataSpec, Path]:
        folder = tmp_path / name
        folder.mkdir()
        return self.make(folder), folder

    def test_it_opens_to_samples_of_known_types(self, tmp_path: Path) -> None:
        spec, root = self._project(tmp_path)
        data = open_data(spec, root)
        for split in (data.train, data.test):
            assert len(split.x) == len(split.y) > 0
            assert split.x.dtype in (np.uint8, np.float32)
            assert split.x.flags.c_contiguous
            if data.classes is None:
                assert split.y.dtype == np.float32
                assert split.y.ndim == 2
            else:
                assert split.y.dtype == np.int64
                assert split.y.ndim == 1
                assert 0 <= split.y.min() <= split.y.max() < len(data.classes)
        assert data.scale == (255.0 if data.train.x.dtype == np.uint8 else 1.0)

    def test_opening_twice_gives_the_same(self, tmp_path: Path) -> None:
        spec, root = self._project(tmp_path)
        assert _digest(open_data(spec, root)) == _digest(open_data(spec, root))

    def test_contents_tell_what_opening_finds(self, tmp_path: Path) -> None:
        spec, root = self._project(tmp_path)
        memory = Memory(tmp_path / "cache")
        contents = source_of(spec, root).contents(memory)
        opened = source_of(spec, root).open(Opening(Room(), memory))
        assert contents.classes == opened.classes
        assert contents.own_test == (opened.test is not None)
        assert contents.sides in (None, sides_of(opened.train.x.shape[1:]))

    def test_the_fingerprint_does_not_depend_on_the_place(self, tmp_path: Path) -> None:
        one, two = self._project(tmp_path, "one"), self._project(tmp_path, "two")
        first = fingerprint(one[0], one[1], tmp_path / "cache")
        assert first == fingerprint(two[0], two[1], tmp_path / "other cache")
        assert str(tmp_path) not in str(first)
        assert digest.of_json(first)

    def test_the_fingerprint_sees_a_change(self, tmp_path: Path) -> None:
        spec, root = self._project(tmp_path)
        before = fingerprint(spec, root, tmp_path / "cache")
        if self.change(root):
            assert fingerprint(spec, root, tmp_path / "cache")["content"] != before["content"]

    def test_the_fingerprint_sees_seed_limit_and_classes(self, tmp_path: Path) -> None:
        spec, root = self._project(tmp_path)
        cache = tmp_path / "cache"
        plain = fingerprint(spec, root, cache)
        assert fingerprint(msgspec.structs.replace(spec, limit=3), root, cache) != plain
        if plain["split"] is not None:
            assert fingerprint(msgspec.structs.replace(spec, split=SplitSpec(seed=5)), root, cache) != plain
        if plain["classes"] is not None and len(plain["classes"]) > 1:
            turned = list(reversed(plain["classes"]))
            assert fingerprint(msgspec.structs.replace(spec, classes=turned), root, cache) != plain

    def test_a_known_fingerprint_is_told_without_numpy(self, tmp_path: Path) -> None:
        """What is cached must not even load the libraries that read data: `status` is to answer at once."""
        spec, root = self._project(tmp_path)
        cache = tmp_path / "cache"
        known = fingerprint(spec, root, cache, clock=FakeClock(LATER))
        code = (
            "import sys, json, msgspec; from pathlib import Path\n"
            "from laminar.data.spec import DataSpec; from laminar.data.fingerprint import fingerprint\n"
            "spec = msgspec.json.decode(sys.argv[1], type=DataSpec)\n"
            "print(json.dumps(fingerprint(spec, Path(sys.argv[2]), Path(sys.argv[3]))))\n"
            "print('numpy' in sys.modules or 'PIL' in sys.modules)\n"
        )
        run = subprocess.run(
            [sys.executable, "-c", code, msgspec.json.encode(spec).decode(), str(root), str(cache)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        told, loaded = run.stdout.splitlines()
        assert msgspec.json.decode(told) == known
        assert loaded == "False"


def _digest(data: Dataset) -> str:
    def parts() -> Iterator[str]:
        for split in (data.train, data.test):
            for array in (split.x, split.y):
                yield digest.of_bytes(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    return digest.of_json([list(parts()), data.classes])
