"""Data specs: what may be written under [data.NAME]."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from laminar.core import digest
from laminar.core.errors import LaminarError


class SplitSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a source without a test set of its own is divided. The seed also chooses the samples that `limit` keeps."""

    test: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    seed: int = 0


class AugmentSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Random changes of training samples, drawn anew each epoch."""

    flip: Literal["none", "horizontal", "vertical", "both"] = "none"
    shift: Annotated[int, Meta(ge=0)] = 0  # pixels at most, each way
    noise: Annotated[float, Meta(ge=0)] = 0.0  # standard deviation, where the sample's range is 0..1

    @property
    def changes_nothing(self) -> bool:
        return self.flip == "none" and self.shift == 0 and self.noise == 0


class DataSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    classes: list[int | str] | None = None  # by index or name; renumbered 0..k-1 in this order
    split: SplitSpec | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None  # at most so many training samples; test samples in proportion
    size: Annotated[int, Meta(ge=1)] | None = None  # folder: side of the square that images are cropped and scaled to
    grey: bool = False  # folder: one channel
    args: dict[str, Any] = {}
    augment: AugmentSpec | None = None


def checked(spec: DataSpec) -> DataSpec:
    """The same spec. One made in Python has not been through a decoder, so its values are checked here."""
    try:
        msgspec.convert(msgspec.to_builtins(msgspec.structs.replace(spec, args={})), DataSpec)
    except (msgspec.ValidationError, TypeError) as error:
        what, _, where = str(error).partition(" - at `$.")
        field = where.rstrip("`") or "data"
        raise LaminarError("L109", f"{field}: {what}", hint=f"correct {field} in the [data] section") from error
    try:
        digest.canonical(spec.args)
    except (TypeError, ValueError) as error:
        raise LaminarError(
            "L109", f"args: {error}; values must be numbers, strings, booleans, lists or tables", hint="correct args in the [data] section"
        ) from error
    return spec
