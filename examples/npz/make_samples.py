"""Writes samples.npz: the packaged digits as anyone would save arrays of their own."""

from pathlib import Path

import numpy as np

from laminar.data.open import open_data
from laminar.data.spec import DataSpec

here = Path(__file__).parent
digits = open_data(DataSpec(source="digits"), here)
np.savez_compressed(
    here / "samples.npz",
    x_train=digits.train.x,
    y_train=digits.train.y,
    x_test=digits.test.x,
    y_test=digits.test.y,
    classes=np.array(digits.classes),
)
print("wrote samples.npz")
