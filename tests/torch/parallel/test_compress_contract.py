"""Every compressor, held to the contract that plug-ins get too."""

from __future__ import annotations

from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.make import make_compressor
from laminar.parallel.compress.protocol import Compressor
from laminar.testing.compressor_contract import CompressorContract
from laminar.train.compression import Dgc, Fp16, Int8, NoCompression, PowerSgd, TopK


class TestNone(CompressorContract):
    def make(self, layout: Layout) -> Compressor:
        return make_compressor(NoCompression(), layout, workers=1)


class TestFp16(CompressorContract):
    def make(self, layout: Layout) -> Compressor:
        return make_compressor(Fp16(), layout, workers=1)


class TestInt8(CompressorContract):
    def make(self, layout: Layout) -> Compressor:
        return make_compressor(Int8(block=64), layout, workers=1)


class TestTopK(CompressorContract):
    def make(self, layout: Layout) -> Compressor:
        return make_compressor(TopK(sparsity=0.95), layout, workers=1)


class TestTopKFloat32(CompressorContract):
    def make(self, layout: Layout) -> Compressor:
        return make_compressor(TopK(sparsity=0.5, values="float32"), layout, workers=1)


class TestDgc(CompressorContract):
    def make(self, layout: Layout) -> Compressor:
        return make_compressor(Dgc(sparsity=0.98), layout, workers=1)


class TestDgcSparse(CompressorContract):
    def make(self, layout: Layout) -> Compressor:
        return make_compressor(Dgc(sparsity=0.99, clip=1e6, masking=False, values="float32"), layout, workers=1)


class TestPowerSgd(CompressorContract):
    def make(self, layout: Layout) -> Compressor:
        return make_compressor(PowerSgd(rank=2), layout, workers=1, seed=3)


class TestPowerSgdOfEveryMatrix(CompressorContract):
    def make(self, layout: Layout) -> Compressor:
        return make_compressor(PowerSgd(rank=1, min_rate=0), layout, workers=1, seed=3)
