"""Sample digests: the same sample, the same digest, wherever it stands."""

from __future__ import annotations

import numpy as np

from laminar.data.samples import sample_digests


def test_a_digest_goes_with_its_sample() -> None:
    x = np.random.default_rng(0).integers(0, 256, (40, 1, 3, 3), dtype=np.uint8)
    digests = sample_digests(x)
    assert digests.shape == (40, 16)
    assert digests.dtype == np.uint8
    assert len({d.tobytes() for d in digests}) == 40
    order = np.random.default_rng(1).permutation(40)
    assert (sample_digests(x[order]) == digests[order]).all()
    assert (sample_digests(np.concatenate([x, x]))[:40] == digests).all()
    assert (sample_digests(np.asfortranarray(x)) == digests).all()


def test_values_types_and_shapes_count() -> None:
    x = np.ones((2, 4), dtype=np.float32)
    y = x.copy()
    y[1, 3] = np.nextafter(np.float32(1), np.float32(2))
    assert (sample_digests(x)[0] == sample_digests(y)[0]).all()
    assert not (sample_digests(x)[1] == sample_digests(y)[1]).all()
    others = [x, x.astype(np.float64), x.reshape(2, 2, 2), x.view(np.int32)]
    assert len({sample_digests(o)[0].tobytes() for o in others}) == 4
    assert (sample_digests(x.astype(">f4")) == sample_digests(x)).all()
    assert sample_digests(np.empty((0, 3), dtype=np.uint8)).shape == (0, 16)
