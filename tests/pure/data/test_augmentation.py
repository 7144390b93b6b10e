"""Augmentation: what it does, and that it depends on seed, epoch and sample only."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core.errors import LaminarError
from laminar.data import augment_affine
from laminar.data.augment import Augment
from laminar.data.batches import Batches
from laminar.data.fingerprint import fingerprint
from laminar.data.open import open_data
from laminar.data.spec import AugmentSpec, DataSpec


def by_sample(
    x: np.ndarray, augment: AugmentSpec, *, batch: int = 7, seed: int = 3, epoch: int = 0, block: int | None = None, shuffle: bool = True
) -> np.ndarray:
    """What became of every sample, in the order of the data set."""
    out = np.empty(x.shape, dtype=np.float32)
    with Batches(x, np.arange(len(x)), batch=batch, seed=seed, augment=augment, block_bytes=block, shuffle=shuffle) as batches:
        for b in batches.epoch(epoch):
            out[b.y] = b.x[0]
    return out


IMAGES = np.random.default_rng(0).integers(1, 256, (50, 2, 5, 6), dtype=np.uint8)
PLAIN = IMAGES / np.float32(255)


EACH = {
    "flip": AugmentSpec(flip="both"),
    "shift": AugmentSpec(shift=2),
    "noise": AugmentSpec(noise=0.2),
    "crop": AugmentSpec(crop=0.5),
    "rotate": AugmentSpec(rotate=40),
    "cutout": AugmentSpec(cutout=2),
    "all": AugmentSpec(flip="both", shift=2, noise=0.2, crop=0.5, rotate=180, cutout=2),
}


@pytest.mark.parametrize("name", EACH)
def test_neither_batch_nor_block_nor_order_matters(name: str) -> None:
    all_of_it = EACH[name]
    one = by_sample(IMAGES, all_of_it)
    assert (one == by_sample(IMAGES, all_of_it, batch=3, block=1000)).all()
    assert (one == by_sample(IMAGES, all_of_it, shuffle=False)).all()
    assert (one[:20] == by_sample(IMAGES[:20], all_of_it)).all()
    assert not (one == by_sample(IMAGES, all_of_it, epoch=1)).all()
    assert not (one == by_sample(IMAGES, all_of_it, seed=4)).all()
    assert not (one == PLAIN).all()


@settings(derandomize=True, max_examples=25, deadline=None)
@given(
    crop=st.sampled_from([1.0, 0.9, 0.3]),
    rotate=st.sampled_from([0.0, 7.5, 180.0]),
    cutout=st.integers(0, 3),
    shift=st.integers(0, 3),
    index=st.lists(st.integers(0, 49), min_size=1, max_size=12),
    epoch=st.integers(0, 3),
    real=st.booleans(),
)
def test_a_sample_goes_with_its_place_in_the_data_alone(
    crop: float, rotate: float, cutout: int, shift: int, index: list[int], epoch: int, real: bool
) -> None:
    """Any samples in any order, together or one by one: as workers would have them that share an epoch."""
    x = PLAIN if real else IMAGES
    augment = Augment(AugmentSpec(crop=crop, rotate=rotate, cutout=cutout, shift=shift), 5, x.shape[1:], clip=not real)
    stream, at = augment.stream(epoch), np.array(index)
    together = augment.move(x[at], at, stream)
    assert together.dtype == x.dtype
    for row, i in zip(together, index, strict=True):
        assert (row == augment.move(x[[i]], np.array([i]), stream)[0]).all()


def test_chunks_inside_of_a_chunk_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    augment, at = Augment(EACH["all"], 5, IMAGES.shape[1:], clip=True), np.arange(50)
    one = augment.move(IMAGES.copy(), at, 9)
    for pixels in (1, 100):
        monkeypatch.setattr(augment_affine, "_AT_ONCE", pixels)
        assert (augment.move(IMAGES.copy(), at, 9) == one).all()


@pytest.mark.parametrize("x", [IMAGES, PLAIN], ids=["bytes", "numbers"])
def test_nothing_set_changes_nothing(x: np.ndarray) -> None:
    assert (by_sample(x, AugmentSpec()) == PLAIN).all()
    assert (by_sample(x, AugmentSpec(flip="none", shift=0, noise=0, crop=1, rotate=0, cutout=0)) == PLAIN).all()
    nothing = Augment(AugmentSpec(), 0, x.shape[1:], clip=True)
    assert not nothing.moves
    assert not nothing.disturbs
    assert not any(spec.changes_nothing for spec in EACH.values())


def test_known_changes_stay_as_they_are() -> None:
    """Golden: a resumed run must go on as it began, whatever was upgraded between, and on another machine."""
    grey = (np.arange(6 * 2 * 5 * 6, dtype=np.uint32) * 2654435761 >> 24).astype(np.uint8).reshape(6, 2, 5, 6)
    found = {}
    for name, spec in GOLDEN_SPECS.items():
        augment = Augment(spec, 7, (2, 5, 6), clip=True)
        for x in (grey, grey / np.float32(255)):
            moved = augment.move(x.copy(), np.arange(6) * 3, augment.stream(2))
            found[f"{name} {x.dtype}"] = hashlib.sha256(np.ascontiguousarray(moved).tobytes()).hexdigest()[:16]
    assert found == GOLDEN


GOLDEN_SPECS = {
    "flip": AugmentSpec(flip="both"),
    "shift": AugmentSpec(shift=2),
    "flip and shift": AugmentSpec(flip="horizontal", shift=1),
    "crop": AugmentSpec(crop=0.5),
    "rotate": AugmentSpec(rotate=180),
    "cutout": AugmentSpec(cutout=3),
    "all": AugmentSpec(flip="both", shift=1, crop=0.7, rotate=20, cutout=2),
}
GOLDEN = {
    "flip uint8": "43da6a466439f01b",
    "flip float32": "4f21705247a741d6",
    "shift uint8": "6cd449733943441e",
    "shift float32": "f2bc9b9855dc9714",
    "flip and shift uint8": "675f12bc907f3e6b",
    "flip and shift float32": "3bec4e6a6cce2f80",
    "crop uint8": "07426c6613a0b59a",
    "crop float32": "29f0e23ed59c36ad",
    "rotate uint8": "8e0991cc0d84f400",
    "rotate float32": "e4c77a33716de35e",
    "cutout uint8": "cf06fc748f8b9ce1",
    "cutout float32": "690cdc7c7b372e5b",
    "all uint8": "bb5bae0fce73aebd",
    "all float32": "63676f2d1284d99f",
}


@pytest.mark.parametrize(("flip", "axes"), [("horizontal", [(), (2,)]), ("vertical", [(), (1,)]), ("both", [(), (1,), (2,), (1, 2)])])
def test_flips(flip: str, axes: list[tuple[int, ...]]) -> None:
    seen = dict.fromkeys(axes, 0)
    for was, now in zip(PLAIN, by_sample(IMAGES, AugmentSpec(flip=flip)), strict=True):  # type: ignore[arg-type]
        seen[next(a for a in axes if (np.flip(was, a) == now).all())] += 1
    assert all(n > 50 / len(axes) / 3 for n in seen.values())


def test_shifts_move_by_whole_pixels_and_fill_with_zero() -> None:
    seen = set()
    for was, now in zip(PLAIN, by_sample(IMAGES, AugmentSpec(shift=1)), strict=True):
        padded = np.pad(was, ((0, 0), (1, 1), (1, 1)))
        moves = [(dy, dx) for dy in range(3) for dx in range(3) if (padded[:, dy : dy + 5, dx : dx + 6] == now).all()]
        assert len(moves) == 1
        seen.add(moves[0])
    assert len(seen) == 9


def test_a_cut_out_is_one_square_of_zeros_in_all_channels_with_its_middle_on_any_pixel() -> None:
    white = np.full((2000, 2, 7, 9), 255, dtype=np.uint8)
    now = by_sample(white, AugmentSpec(cutout=3))
    middles = set()
    for image in now:
        assert (image[0] == image[1]).all()
        rows, columns = np.flatnonzero((image[0] == 0).any(axis=1)), np.flatnonzero((image[0] == 0).any(axis=0))
        assert (image[0][rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] == 0).all()
        assert (image[0] == 0).sum() == len(rows) * len(columns)
        y, x = (a[-1] - 1 if a[0] == 0 else a[0] + 1 for a in (rows, columns))
        assert len(rows) == min(y + 2, 7) - max(y - 1, 0)
        assert len(columns) == min(x + 2, 9) - max(x - 1, 0)
        middles.add((y, x))
    assert middles == {(y, x) for y in range(7) for x in range(9)}
    assert (now[:, 0, 3, 4] == 0).mean() == pytest.approx(9 / 63, abs=0.03)  # every pixel as often, but for the edges
    assert (now[:, 0, 0, 0] == 0).mean() == pytest.approx(4 / 63, abs=0.03)


def test_noise_falls_on_a_cut_out_too() -> None:
    white = np.full((20, 1, 8, 8), 255, dtype=np.uint8)
    both = by_sample(white, AugmentSpec(cutout=7, noise=0.1))
    cut = by_sample(white, AugmentSpec(cutout=7))
    assert 0 < both[cut == 0].mean() < 0.1


def test_noise_has_its_deviation_and_stays_in_range() -> None:
    grey = np.full((200, 1, 8, 8), 128, dtype=np.uint8)
    change = by_sample(grey, AugmentSpec(noise=0.1)) - 128 / 255
    assert abs(change.std() - 0.1) < 0.003
    assert abs(change.mean()) < 0.003
    assert len({c.tobytes() for c in change}) == 200
    wild = by_sample(grey, AugmentSpec(noise=2.0))
    assert wild.min() == 0
    assert wild.max() == 1


def test_real_numbers_are_disturbed_without_bounds() -> None:
    x = np.zeros((100, 9), dtype=np.float32)
    assert by_sample(x, AugmentSpec(noise=3.0)).std() > 2
    assert (x == 0).all()  # the data itself is never touched


def test_the_data_itself_is_never_touched() -> None:
    before = IMAGES.copy()
    for spec in EACH.values():
        by_sample(IMAGES, spec)
    assert (before == IMAGES).all()


@pytest.mark.parametrize(
    ("spec", "shape", "says"),
    [
        (
            AugmentSpec(flip="horizontal"),
            (9,),
            "augment: images (channels, height, width) are needed for flip, but the samples of this data are none",
        ),
        (AugmentSpec(crop=0.5, rotate=3), (9,), "needed for crop, rotate"),
        (AugmentSpec(cutout=1), (9,), "needed for cutout"),
        (AugmentSpec(rotate=1), (4, 9), "needed for rotate"),
        (AugmentSpec(shift=5), (1, 5, 9), "augment.shift: 5 pixels, but images are 9x5"),
        (AugmentSpec(cutout=5), (1, 5, 9), "augment.cutout: 5 pixels, but images are 9x5"),
        (AugmentSpec(cutout=30), (3, 28, 28), "augment.cutout: 30 pixels, but images are 28x28"),
    ],
)
def test_what_cannot_be_moved_is_refused(spec: AugmentSpec, shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(LaminarError) as caught:
        Augment(spec, 0, shape, clip=True)
    assert caught.value.code == "L109"
    assert says in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (AugmentSpec(crop=0), "augment.crop"),
        (AugmentSpec(crop=1.5), "augment.crop"),
        (AugmentSpec(rotate=-1), "augment.rotate"),
        (AugmentSpec(rotate=181), "augment.rotate"),
        (AugmentSpec(cutout=-1), "augment.cutout"),
        (AugmentSpec(cutout=1.5), "augment.cutout"),  # type: ignore[arg-type]
    ],
)
def test_values_out_of_range_are_refused(spec: AugmentSpec, says: str) -> None:
    with pytest.raises(LaminarError, match=says) as caught:
        open_data(DataSpec(source="digits", augment=spec), Path())
    assert caught.value.code == "L109"


def test_opened_samples_are_plain() -> None:
    """Only batches for training change them: what is tested and evaluated on is as it was."""
    plain, changed = (open_data(DataSpec(source="digits", augment=spec), Path()) for spec in (None, EACH["all"]))
    assert (plain.test.x == changed.test.x).all()
    assert (plain.train.x == changed.train.x).all()


def test_keys_name_later_settings_only_where_they_are_set(tmp_path: Path) -> None:
    def key(spec: AugmentSpec) -> dict[str, object]:
        return dict(fingerprint(DataSpec(source="digits", augment=spec), tmp_path, tmp_path)["augment"])

    assert key(AugmentSpec(shift=1)) == {"flip": "none", "shift": 1, "noise": 0.0}
    assert key(AugmentSpec(rotate=5)) == key(AugmentSpec(rotate=5.0, crop=1)) == {"flip": "none", "shift": 0, "noise": 0.0, "rotate": 5.0}
    assert key(AugmentSpec(crop=0.5, cutout=2)) == {"flip": "none", "shift": 0, "noise": 0.0, "crop": 0.5, "cutout": 2}
