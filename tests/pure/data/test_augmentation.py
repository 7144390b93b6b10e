"""Augmentation: what it does, and that it depends on seed, epoch and sample only."""

from __future__ import annotations

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.data.augment import Augment
from laminar.data.batches import Batches
from laminar.data.spec import AugmentSpec


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


def test_neither_batch_nor_block_nor_order_matters() -> None:
    all_of_it = AugmentSpec(flip="both", shift=2, noise=0.2)
    one = by_sample(IMAGES, all_of_it)
    assert (one == by_sample(IMAGES, all_of_it, batch=3, block=1000)).all()
    assert (one == by_sample(IMAGES, all_of_it, shuffle=False)).all()
    assert (one[:20] == by_sample(IMAGES[:20], all_of_it)).all()
    assert not (one == by_sample(IMAGES, all_of_it, epoch=1)).all()
    assert not (one == by_sample(IMAGES, all_of_it, seed=4)).all()


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
    by_sample(IMAGES, AugmentSpec(flip="both", shift=2, noise=0.2))
    assert (before == IMAGES).all()


def test_what_cannot_be_moved_is_refused() -> None:
    for spec, shape in ((AugmentSpec(flip="horizontal"), (9,)), (AugmentSpec(shift=5), (1, 5, 9))):
        with pytest.raises(LaminarError) as caught:
            Augment(spec, 0, shape, clip=True)
        assert caught.value.code == "L109"
