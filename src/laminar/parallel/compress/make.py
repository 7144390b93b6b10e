"""From a spec to a compressor."""

from __future__ import annotations

from laminar.parallel.compress.dense import Dense
from laminar.parallel.compress.dgc import DeepGradientCompression
from laminar.parallel.compress.int8 import BlockInt8
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import Coding
from laminar.parallel.compress.powersgd import LowRank
from laminar.parallel.compress.protocol import Compressor
from laminar.parallel.compress.topk import LargestValues
from laminar.train.compression import AnyCompression, Dgc, Fp16, Int8, Kind, NoCompression, PowerSgd, TopK, compression


def make_compressor(
    spec: Kind | AnyCompression,
    layout: Layout,
    *,
    workers: int,
    momentum: float = 0.0,
    nesterov: bool = False,
    clip: float | None = None,
    weight_decay: float = 0.0,
    seed: int = 0,
) -> Compressor:
    """A compressor for one of `workers`. Momentum, clip and decay are the recipe's; where `takes_momentum` is false they are left to
    the optimizer behind the exchange. `seed` must be the same for all workers."""
    match compression(spec):
        case NoCompression():
            return Dense(layout, Coding.FLOAT32)
        case Fp16():
            return Dense(layout, Coding.FLOAT16)
        case Int8() as int8:
            return BlockInt8(int8, layout)
        case TopK() as topk:
            return LargestValues(topk, layout)
        case Dgc() as dgc:
            return DeepGradientCompression(
                dgc, layout, workers=workers, momentum=momentum, nesterov=nesterov, clip=clip, weight_decay=weight_decay
            )
        case PowerSgd() as powersgd:
            return LowRank(powersgd, layout, seed=seed)
