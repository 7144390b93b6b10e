"""Specs of compression: what may be written, read without torch; layouts."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.make import make_compressor
from laminar.train.compression import AnyCompression, Dgc, Int8, Kind, PowerSgd, TopK, compression

Written = Kind | AnyCompression
KINDS = ["none", "fp16", "int8", "topk", "dgc", "powersgd"]


def read(written: object) -> AnyCompression:
    return compression(msgspec.convert(written, Written))


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_is_a_table_with_defaults(kind: str) -> None:
    assert read(kind) == read({"kind": kind})
    assert read(kind).kind == kind
    made = make_compressor(read(kind), Layout.of({"w": (3, 4)}), workers=2)
    assert made.takes_momentum == read(kind).needs_sgd == (kind == "dgc")


def test_settings_are_read() -> None:
    spec = read({"kind": "dgc", "sparsity": 0.99, "warmup_epochs": 2, "clip": 1.5, "sample": 0.05})
    assert spec == Dgc(sparsity=0.99, warmup_epochs=2, clip=1.5, sample=0.05)
    assert msgspec.convert(msgspec.to_builtins(spec), AnyCompression) == spec
    assert read({"kind": "powersgd", "rank": 4}) == PowerSgd(rank=4)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("zip", "Invalid enum value 'zip'"),
        ({"kind": "zip"}, "Invalid value 'zip'"),
        ({"kind": "dgc", "sparsety": 0.9}, "unknown field `sparsety`"),
        ({"kind": "topk", "warmup_epochs": 4}, "unknown field `warmup_epochs`"),
        ({"kind": "dgc", "sparsity": 1.0}, r"compress\.sparsity is 1\.0, but must be 0 or more and below 1"),
        ({"kind": "dgc", "sparsity": 99.9}, r"compress\.sparsity is 99\.9"),
        ({"kind": "dgc", "warmup_epochs": -1}, r"compress\.warmup_epochs is -1"),
        ({"kind": "dgc", "clip": 0}, r"compress\.clip is 0\.0, but must be a number above 0"),
        ({"kind": "topk", "sample": 0}, r"compress\.sample is 0\.0, but must be above 0"),
        ({"kind": "topk", "values": "int8"}, "Invalid enum value 'int8'"),
        ({"kind": "int8", "block": 1}, r"compress\.block is 1, but must be 8 to 65536"),
        ({"kind": "powersgd", "rank": 0}, r"compress\.rank is 0, but must be 1"),
        ({"kind": "powersgd", "min_rate": -1}, r"compress\.min_rate is -1"),
    ],
)
def test_mistakes_are_told(written: object, said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        read(written)


def test_specs_need_no_torch() -> None:
    modules = "laminar.train.compression, laminar.parallel.compress.packet, laminar.parallel.compress.layout"
    program = f"import sys, {modules}\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_defaults_are_what_papers_and_docs_say() -> None:
    assert Dgc() == Dgc(sparsity=0.999, warmup_epochs=4, clip=None, sample=0.01, values="float16", masking=True)
    assert (TopK().sparsity, Int8().block, PowerSgd().rank, PowerSgd().min_rate) == (0.99, 256, 2, 2.0)


def test_layouts_have_no_gaps_and_no_twins() -> None:
    layout = Layout([("a", 0, (2, 3)), ("b", 6, ()), ("c", 7, (0,)), ("d", 7, (4,))])
    assert layout.numel == 11
    assert layout == Layout.of({"a": (2, 3), "b": (), "c": (0,), "d": (4,)})
    assert layout.fingerprint != Layout.of({"a": (3, 2), "b": (), "c": (0,), "d": (4,)}).fingerprint
    with pytest.raises(ValueError, match="'b' begins at 7, but the part before it ends at 6"):
        Layout([("a", 0, (2, 3)), ("b", 7, (1,))])
    with pytest.raises(ValueError, match="one name"):
        Layout([("a", 0, (1,)), ("a", 1, (1,))])
    with pytest.raises(ValueError, match="shape"):
        Layout([("a", 0, (-1,))])
