"""Whether augmentation fits the data: known before any sample is read, wherever a source can tell how large its images are.

Without numpy, since `laminar status` asks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar.core.errors import LaminarError
from laminar.core.figures import many

if TYPE_CHECKING:
    from laminar.data.spec import AugmentSpec

Sides = tuple[int, ...]  # height and width of the images; () where samples are none


def sides_of(sample_shape: tuple[int, ...]) -> Sides:
    return sample_shape[1:] if len(sample_shape) == 3 else ()


def moving(spec: AugmentSpec) -> list[str]:
    """The settings that move pixels, and so need images."""
    on = {
        "flip": spec.flip != "none",
        "shift": spec.shift > 0,
        "crop": spec.crop < 1,
        "rotate": spec.rotate > 0,
        "cutout": spec.cutout > 0,
    }
    return [name for name, is_on in on.items() if is_on]


def refuse_unfit(spec: AugmentSpec | None, sides: Sides) -> None:
    """L109 for what cannot be done to such samples. The one place where this is decided."""
    if spec is None or not (names := moving(spec)):
        return
    if not sides:
        what = ", ".join(names)
        raise LaminarError(
            "L109",
            f"augment: images (channels, height, width) are needed for {what}, but the samples of this data are none",
            hint=f"remove {what}; noise works for any samples",
        )
    for name, pixels in (("shift", spec.shift), ("cutout", spec.cutout)):
        if pixels >= min(sides):
            raise LaminarError(
                "L109",
                f"augment.{name}: {many(pixels, 'pixel')}, but images are {sides[1]}x{sides[0]}",
                hint=f"{name} = {min(sides) - 1} at most" if min(sides) > 1 else f"remove {name}",
            )
