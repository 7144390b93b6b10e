"""Tensors in and out: digests, files that safetensors can read, private memory, deltas."""

from __future__ import annotations

import hashlib
import os
import resource
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core.errors import LaminarError
from laminar.store import delta, raw
from laminar.store.manifest import TensorRef
from laminar.store.raw import RawTensor
from laminar.store.store import Store
from laminar.testing.remote_contract import raw as raw_of
from laminar.testing.remote_contract import sample_layer


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "s")


def put(store: Store, array: np.ndarray, parent: str | None = None, name: str = "w") -> TensorRef:
    return store.put_tensors({name: raw_of(array)}, store.layer(parent) if parent else None)[name]


def get(store: Store, ref: TensorRef) -> np.ndarray:
    from laminar.store.tensors import load

    return np.frombuffer(load(store.objects, ref).data, np.float32).reshape(ref.shape)


def objects(store: Store) -> set[str]:
    return set(store.objects.names())


def test_the_file_of_a_tensor_is_plain_safetensors(store: Store) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    ref = put(store, array)
    path = store.objects.path(ref.digest)
    assert np.array_equal(safetensors.numpy.load_file(path)["t"], array)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == ref.digest == raw.digest(raw_of(array))


def test_golden_digests() -> None:
    """Names of tensors must never change: a store of years ago must still be read, and equal tensors must be found in it."""
    data = memoryview(np.arange(4, dtype="<f4")).cast("B")
    assert raw.digest(RawTensor.of("F32", (2, 2), data)) == "ebb898e27a903f7808a89723a52489931e3eee88732271285e4cf1935dfd4fe1"
    assert raw.digest(RawTensor.of("F32", (4,), data)) == "c7c0b12e42958d28d559b77d1fa83d49853fc73a94476730f22888620c076aa7"
    assert raw.digest(RawTensor.of("I32", (4,), data)) == "a7da694758dd75c438118892c9df41dde200fbb7f2572c1194852d97813e41cc"
    assert raw.digest(RawTensor.of("U8", (0,), b"")) == "0645f379920e2c46badf64bb75ac4c5201f0013d1ff36d7e42ef110e11dc1729"


def test_data_is_aligned_and_scalars_and_empty_tensors_work(store: Store) -> None:
    for shape in ((), (0,), (3, 0, 2), (7,), (1000, 100)):
        array = np.ones(shape, np.float32)
        ref = put(store, array)
        assert len(raw.header("F32", shape)) % 64 == 0
        assert np.array_equal(get(store, ref), array)


def test_a_buffer_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match="has 8 bytes, but the buffer has 4"):
        RawTensor.of("F32", (2,), b"1234")
    with pytest.raises(ValueError, match="dtype 'F33'"):
        RawTensor.of("F33", (2,), b"1234")


@pytest.mark.parametrize("size", [100, 200_000], ids=["read", "mapped"])
def test_training_in_place_does_not_touch_the_file(store: Store, size: int) -> None:
    array = np.arange(size, dtype=np.float32)
    ref = put(store, array)
    view = get(store, ref)
    assert view.flags.writeable
    view += 1
    assert np.array_equal(get(store, ref), array)
    assert hashlib.sha256(store.objects.path(ref.digest).read_bytes()).hexdigest() == ref.digest


def test_many_mapped_tensors_keep_no_file_open(store: Store) -> None:
    """Python's own maps each hold a descriptor; a thousand tensors would meet the limit."""
    ref = put(store, np.zeros(50_000, np.float32))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/proc/self/fd"))
    kept = [get(store, ref) for _ in range(50)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(kept) == 50
    assert soft <= hard


def test_memory_outlives_the_store_and_the_file(store: Store) -> None:
    array = np.arange(100_000, dtype=np.float32)
    ref = put(store, array)
    view = get(store, ref)
    store.objects.path(ref.digest).unlink()
    del store
    assert np.array_equal(view, array)


def test_equal_tensors_are_stored_once(store: Store) -> None:
    zeros = np.zeros(10, np.float32)
    refs = store.put_tensors({"a": raw_of(zeros), "b": raw_of(zeros.copy()), "c": raw_of(zeros.reshape(2, 5))}, None)
    assert refs["a"] == refs["b"]
    assert refs["a"].digest != refs["c"].digest
    assert len(objects(store)) == 2


def test_an_unchanged_tensor_writes_nothing(store: Store) -> None:
    layer = sample_layer(store, tensors={"w": np.arange(2_000_000, dtype=np.float32), "b": np.zeros(3, np.float32)})
    before = objects(store)
    refs = store.put_tensors(store.get_tensors(layer), layer)
    assert refs == layer.tensors
    assert objects(store) == before
    swapped = store.put_tensors({"other": store.get_tensors(layer)["w"]}, layer)
    assert swapped["other"] == layer.tensors["w"]
    assert objects(store) == before


@pytest.mark.parametrize("size", [50_000, 1_500_000], ids=["small", "written while hashing"])
def test_a_changed_tensor_is_written_whole(store: Store, size: int) -> None:
    rng = np.random.default_rng(0)
    layer = sample_layer(store, tensors={"w": rng.standard_normal(size, dtype=np.float32)})
    new = rng.standard_normal(size, dtype=np.float32)
    ref = put(store, new, layer.id)
    assert ref.delta is None
    assert np.array_equal(get(store, ref), new)
    assert put(store, new) == ref
    assert list(store.layout.tmp.iterdir()) == []


def test_few_changes_become_a_delta(store: Store) -> None:
    old = np.random.default_rng(0).standard_normal((500, 200), dtype=np.float32)
    layer = sample_layer(store, tensors={"w": old})
    new = old.copy()
    new[3, ::2] = -0.0
    new[499, 199] = np.nan
    ref = put(store, new, layer.id)
    assert ref.delta is not None
    assert ref.delta.base == layer.tensors["w"].digest
    assert ref.digest == raw.digest(raw_of(new))
    assert store.objects.size(ref.delta.object) < 2000
    assert get(store, ref).tobytes() == new.tobytes()
    assert get(store, layer.tensors["w"]).tobytes() == old.tobytes()


def test_one_percent_of_a_tensor_costs_little_more_than_its_bytes(store: Store) -> None:
    rng = np.random.default_rng(0)
    old = rng.standard_normal(1_000_000, dtype=np.float32)
    layer = sample_layer(store, tensors={"w": old})
    scattered, rows = old.copy(), old.copy()
    scattered[rng.choice(old.size, old.size // 100, replace=False)] += 1
    rows[5000:15000] += 1
    for new in (scattered, rows):
        ref = put(store, new, layer.id)
        assert ref.delta is not None
        assert store.objects.size(ref.delta.object) < 0.02 * old.nbytes
        assert np.array_equal(get(store, ref), new)


def test_small_tensors_are_kept_whole(store: Store) -> None:
    old = np.zeros(delta.SMALLEST // 4 - 1, np.float32)
    layer = sample_layer(store, tensors={"w": old})
    new = old.copy()
    new[0] = 1
    assert put(store, new, layer.id).delta is None


def test_a_chain_of_deltas_stays_short(store: Store) -> None:
    weights = np.zeros(100_000, np.float32)
    layer = sample_layer(store, "l0", tensors={"w": weights})
    depths = []
    for generation in range(1, 12):
        weights = weights.copy()
        weights[generation * 50 : generation * 50 + 40] = generation
        layer = sample_layer(store, f"l{generation}", tensors={"w": weights}, parent=layer.id)
        chain = layer.tensors["w"].delta
        assert chain is not None
        depths.append(len(chain.steps))
        assert np.array_equal(get(store, layer.tensors["w"]), weights)
    assert depths == [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3]


def test_a_damaged_parent_does_not_spoil_the_child(store: Store) -> None:
    old = np.zeros(100_000, np.float32)
    layer = sample_layer(store, tensors={"w": old})
    store.objects.path(layer.tensors["w"].digest).unlink()
    new = old.copy()
    new[0] = 1
    ref = put(store, new, layer.id)
    assert ref.delta is None
    assert np.array_equal(get(store, ref), new)


def test_aliases_share_memory(store: Store) -> None:
    import msgspec

    layer = sample_layer(store, tensors={"w": np.arange(4, dtype=np.float32)})
    tied = msgspec.structs.replace(layer, aliases={"out.w": "w"})
    found = store.get_tensors(tied)
    assert found["out.w"] is found["w"]
    assert set(store.get_tensors(tied, ["out.w"])) == {"out.w"}
    with pytest.raises(LaminarError, match="no tensor 'nope'"):
        store.get_tensors(tied, ["nope"])


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    dtype=st.sampled_from(["U8", "F16", "F32", "I64"]),
    size=st.integers(1, 300),
    data=st.data(),
)
def test_deltas_round_trip(dtype: str, size: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, size))
    at = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=count, max_size=count))), dtype=np.int64)
    rng = np.random.default_rng(size)
    old = rng.integers(0, 255, size * raw.SIZES[dtype], dtype=np.uint8)
    target = RawTensor.of(dtype, (size,), old.copy().data)
    new = RawTensor.of(dtype, (size,), rng.integers(0, 255, old.size, dtype=np.uint8).data)
    delta.apply(memoryview(delta.encode(new, at)), target)
    wanted = delta.elements(old.data, dtype).copy()
    wanted[at] = delta.elements(new.data, dtype)[at]
    assert np.array_equal(delta.elements(target.data, dtype), wanted)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.one_of(st.integers(0, 300), st.integers(0, 2**62)), max_size=50))
def test_gaps_round_trip(numbers: list[int]) -> None:
    array = np.array(numbers, dtype=np.int64)
    assert np.array_equal(delta._unpack(np.frombuffer(delta._pack(array), np.uint8)), array)


def test_rubbish_is_no_delta() -> None:
    target = RawTensor.of("F32", (10,), bytearray(40))
    far = delta.encode(RawTensor.of("F32", (20,), bytearray(80)), np.array([15]))
    cut = delta.encode(RawTensor.of("F32", (20,), bytearray(80)), np.array([1, 2]))[:-1]
    other = delta.encode(RawTensor.of("U8", (10,), bytearray(10)), np.array([1]))
    for data in (b"", b"\x00" * 16, far, cut, other):
        with pytest.raises(delta.BadDelta):
            delta.apply(memoryview(data), target)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
def test_memory_is_given_back_when_nobody_looks_at_it(store: Store) -> None:
    ref = put(store, np.zeros(50_000, np.float32))
    view = get(store, ref)[10:20]
    assert ref.digest[2:] in Path("/proc/self/maps").read_text()
    assert view.sum() == 0
    del view
    assert ref.digest[2:] not in Path("/proc/self/maps").read_text()
