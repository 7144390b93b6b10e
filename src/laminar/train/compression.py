"""What may be written under `compress`: a name, or a table with a kind and its settings.

    compress = "dgc"
    compress = { kind = "dgc", sparsity = 0.999, warmup_epochs = 4, clip = 1.0, sample = 0.01 }

No torch here: a spec can be read, checked and priced without it.
"""

from __future__ import annotations

import math
from typing import ClassVar, Final, Literal

import msgspec

Values = Literal["float16", "float32"]
Kind = Literal["none", "fp16", "int8", "topk", "dgc", "powersgd"]


class CompressSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """One kind of compression with its settings."""

    needs_sgd: ClassVar[bool] = False  # momentum, clipping and weight decay happen before the exchange: only plain SGD may follow it

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)


class NoCompression(CompressSpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="none"):
    """float32, as computed."""


class Fp16(CompressSpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fp16"):
    """Half the bytes."""


class Int8(CompressSpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="int8"):
    """A quarter of the bytes."""

    block: int = 256  # values that share a scale

    def __post_init__(self) -> None:
        if not 8 <= self.block <= 65536:
            raise ValueError(f"compress.block is {self.block}, but must be 8 to 65536 values")


def _check_sparse(sparsity: float, sample: float) -> None:
    if not 0 <= sparsity < 1:
        raise ValueError(f"compress.sparsity is {sparsity}, but must be 0 or more and below 1: 0.999 sends one value of a thousand")
    if not 0 < sample <= 1:
        raise ValueError(f"compress.sample is {sample}, but must be above 0 and at most 1")


class TopK(CompressSpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="topk"):
    """The largest values of each tensor."""

    sparsity: float = 0.99  # share of the values that is not sent
    sample: float = 0.01  # share of the values that the threshold is taken from
    values: Values = "float16"

    def __post_init__(self) -> None:
        _check_sparse(self.sparsity, self.sample)


class Dgc(CompressSpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="dgc"):
    """Deep Gradient Compression (Lin et al., ICLR 2018)."""

    needs_sgd: ClassVar[bool] = True

    sparsity: float = 0.999
    warmup_epochs: int = 4
    clip: float | None = None  # largest norm of all gradients together; None: the recipe's
    sample: float = 0.01
    values: Values = "float16"
    masking: bool = True  # what is sent loses its momentum, which is stale by then

    def __post_init__(self) -> None:
        _check_sparse(self.sparsity, self.sample)
        if self.warmup_epochs < 0:
            raise ValueError(f"compress.warmup_epochs is {self.warmup_epochs}, but must be 0 or more")
        if self.clip is not None and not (self.clip > 0 and math.isfinite(self.clip)):
            raise ValueError(f"compress.clip is {self.clip}, but must be a number above 0")

    def ratio(self, epoch_progress: float) -> float:
        """Share of the values that is sent after so many epochs.

        While warming up it falls by a whole factor each epoch: for 99.9 % after 4 epochs by 4, so 75, 93.75, 98.4375, 99.6 % are not sent.
        Where that would be 1, and all would be sent until the last, by the broken one.
        """
        if epoch_progress < 0 or not math.isfinite(epoch_progress):
            raise ValueError(f"epoch_progress is {epoch_progress}, but must be 0 or more")
        last = 1 - self.sparsity
        epoch = int(epoch_progress)
        if epoch >= self.warmup_epochs:
            return last
        exact = math.pow(last, -1 / (self.warmup_epochs + 1))
        factor: float = exact if exact < 1.5 else float(round(exact))
        return max(last, 1.0 / math.pow(factor, epoch + 1))


class PowerSgd(CompressSpec, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="powersgd"):
    """Matrices as a product of two thin ones (Vogels et al., NeurIPS 2019)."""

    rank: int = 2
    min_rate: float = 2.0  # a tensor is left as it is unless this makes it smaller by more than so much

    def __post_init__(self) -> None:
        if not 1 <= self.rank <= 4096:
            raise ValueError(f"compress.rank is {self.rank}, but must be 1 to 4096")
        if not (self.min_rate >= 0 and math.isfinite(self.min_rate)):
            raise ValueError(f"compress.min_rate is {self.min_rate}, but must be a number of 0 or more")


AnyCompression = NoCompression | Fp16 | Int8 | TopK | Dgc | PowerSgd

_BY_NAME: Final[dict[Kind, AnyCompression]] = {
    "none": NoCompression(),
    "fp16": Fp16(),
    "int8": Int8(),
    "topk": TopK(),
    "dgc": Dgc(),
    "powersgd": PowerSgd(),
}


def compression(written: Kind | AnyCompression) -> AnyCompression:
    """The settings, also where only a name was written."""
    return written if isinstance(written, CompressSpec) else _BY_NAME[written]
