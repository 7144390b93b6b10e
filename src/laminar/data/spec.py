"""Data specs: what may be written under [data.NAME]."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.toml_words import in_toml_words
from laminar.data.augment_fit import refuse_unfit


class SplitSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a source without a test set of its own is divided. The seed also chooses the samples that `limit` keeps."""

    test: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    seed: int = 0
    by: Literal["sample", "source"] | None = None  # source: all that comes from one image file is on one side; so it is for fragments


class FragmentSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Squares cut from the images of a folder or index, in a grid and turned. fragments/grid.py has the formula."""

    size: Annotated[int, Meta(ge=2)]
    overlap: Annotated[float, Meta(ge=0, lt=1)] = 0.0  # of neighbours, as a share of the side
    rotate: Annotated[int, Meta(ge=0, lt=360)] = 0  # degrees from one angle to the next; 0: not turned
    edge: Literal["mirror", "black", "inside"] = "mirror"  # what a turned square shows where it leaves its image; inside: none does
    last: Literal["move", "drop"] = "move"  # a last row or column that does not fit: moved back to the edge, or left out


class SampleSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A random local data set: as many of each class, none twice, another seed another choice."""

    per_class: Annotated[int, Meta(ge=1)]
    seed: int = 0
    test_per_class: Annotated[int, Meta(ge=1)] | None = None  # default: in the proportion of the split
    sources: Annotated[int, Meta(ge=1)] | None = None  # fragments: from so many images of each class only


class AugmentSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Random changes of training samples, drawn anew each epoch."""

    flip: Literal["none", "horizontal", "vertical", "both"] = "none"
    shift: Annotated[int, Meta(ge=0)] = 0  # pixels at most, each way
    noise: Annotated[float, Meta(ge=0)] = 0.0  # standard deviation, where the sample's range is 0..1
    crop: Annotated[float, Meta(gt=0, le=1)] = 1.0  # the smallest share of the side that is cut out and scaled back up
    rotate: Annotated[float, Meta(ge=0, le=180)] = 0.0  # degrees at most, either way
    cutout: Annotated[int, Meta(ge=0)] = 0  # side of a square that is blackened

    @property
    def changes_nothing(self) -> bool:
        return self == AugmentSpec()


class DataSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str | list[str]  # several are joined, their classes by name
    classes: list[int | str] | None = None  # by index or name; renumbered 0..k-1 in this order
    split: SplitSpec | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None  # at most so many training samples; test samples in proportion
    size: Annotated[int, Meta(ge=1)] | None = None  # folder: side of the square that images are cropped and scaled to
    grey: bool = False  # folder: one channel
    shape: list[Annotated[int, Meta(ge=1)]] | None = None  # tables: the numbers of a row are an image, (channels,) height, width
    args: dict[str, Any] = {}
    augment: AugmentSpec | None = None
    mirrors: list[str] = []  # folder, index: where the images are fetched from, all alike
    fragment: FragmentSpec | None = None
    sample: SampleSpec | None = None
    skip_bad: bool = False  # folder, index: images that cannot be read are left out and counted
    reads: list[str] = []  # python: files that the function reads where Laminar cannot see it, by pattern
    env: list[str] = []  # python: variables, likewise
    memory: str | Annotated[int, Meta(ge=1)] | None = None  # "2GB": what is larger is memory-mapped. Changes no result, so no key

    @property
    def sources(self) -> list[str]:
        return [self.source] if isinstance(self.source, str) else self.source

    @property
    def where(self) -> str:
        """What messages call the data."""
        return " + ".join(self.sources)

    @property
    def kinds(self) -> list[str]:
        return [source.partition(":")[0] for source in self.sources]


TABLES: Final = ("csv", "hf", "parquet")  # kinds of source whose samples are rows of numbers


def _refuse_conflicts(spec: DataSpec) -> None:
    """Settings that cannot stand together, told before any data is looked at."""
    found: tuple[str, str] | None = None
    if spec.shape is not None and len(spec.shape) not in (2, 3):
        found = f"shape: {spec.shape}, expected height and width, or channels, height and width", "shape = [1, 28, 28]"
    elif spec.shape is not None and (others := [kind for kind in spec.kinds if kind not in TABLES]):
        found = f"shape: applies to rows of tables ({', '.join(TABLES)}), not to {others[0]}", "remove shape"
    elif spec.fragment is not None and spec.split is not None and spec.split.by == "sample":
        found = 'split.by: "sample" would put fragments of one image on both sides', 'by = "source", or remove by'
    elif spec.fragment is not None and spec.size is not None:
        found = f"size: {spec.size}, but fragments have a size of their own", "remove size; fragment.size is the side"
    elif spec.limit is not None and (spec.fragment is not None or spec.sample is not None):
        found = f"limit: {spec.limit}, but what is taken of fragments and samples is said by sample", "remove limit; use sample.per_class"
    elif (spec.reads or spec.env) and "python" not in spec.kinds:
        field = "reads" if spec.reads else "env"
        found = f"{field}: declares what a function reads, but {spec.where} is no function", f"remove {field}"
    elif spec.sample is not None and spec.sample.sources is not None and spec.fragment is None:
        found = "sample.sources: applies to fragments of images", "remove sources, or add fragment"
    if found is not None:
        raise LaminarError("L109", found[0], hint=found[1])
    if spec.fragment is not None:
        refuse_unfit(spec.augment, (spec.fragment.size, spec.fragment.size))


def checked(spec: DataSpec) -> DataSpec:
    """The same spec. One made in Python has not been through a decoder, so its values are checked here."""
    try:
        msgspec.convert(msgspec.to_builtins(msgspec.structs.replace(spec, args={})), DataSpec)
    except (msgspec.ValidationError, TypeError) as error:
        what, _, where = str(error).partition(" - at `$.")
        field = where.rstrip("`") or "data"
        raise LaminarError("L109", f"{field}: {in_toml_words(what)}", hint=f"correct {field} in the [data] section") from error
    try:
        digest.canonical(spec.args)
    except (TypeError, ValueError) as error:
        raise LaminarError(
            "L109", f"args: {error}; values must be numbers, strings, booleans, lists or tables", hint="correct args in the [data] section"
        ) from error
    _refuse_conflicts(spec)
    return spec
