from __future__ import annotations

import mmap

import pytest
import torch
from torch import nn

from laminar.core.errors import LaminarError
from laminar.model.weights import DTYPES, from_raw, load_state, raw_bytes, raw_state, state, tensors_of, to_raw
from laminar.store.raw import SIZES, RawTensor


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_every_dtype_goes_there_and_back_bit_for_bit(name: str) -> None:
    data = torch.arange(24, dtype=torch.uint8).repeat(SIZES[name])
    if name == "BOOL":
        data = data % 2
    tensor = data.view(DTYPES[name]).view(2, 3, 4)
    raw = to_raw(tensor)
    assert (raw.dtype, raw.shape, raw.data.nbytes) == (name, (2, 3, 4), 24 * SIZES[name])
    back = from_raw(raw)
    assert back.dtype == tensor.dtype
    assert bytes(raw_bytes(back)) == bytes(raw_bytes(tensor))


def test_the_store_knows_the_same_dtypes() -> None:
    assert set(DTYPES) == set(SIZES)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)])
def test_scalars_and_empty_tensors(shape: tuple[int, ...]) -> None:
    assert torch.equal(from_raw(to_raw(torch.ones(shape))), torch.ones(shape))


def test_nothing_is_copied_when_memory_allows() -> None:
    tensor = torch.zeros(4)
    back = from_raw(to_raw(tensor))
    tensor[0] = 7
    assert back[0] == 7


def test_a_copy_on_write_mapping_is_used_in_place() -> None:
    memory = mmap.mmap(-1, 16, access=mmap.ACCESS_COPY)
    tensor = from_raw(RawTensor("F32", (4,), memoryview(memory)))
    tensor.fill_(1.0)
    assert bytes(memory[:4]) == b"\x00\x00\x80\x3f"


def test_read_only_memory_is_copied_without_a_warning() -> None:
    tensor = from_raw(RawTensor("F32", (2,), memoryview(bytes(8))))
    tensor.fill_(1.0)


def test_transposed_and_sliced_tensors_are_made_contiguous() -> None:
    tensor = torch.arange(12.0).view(3, 4).t()[1:]
    assert torch.equal(from_raw(to_raw(tensor)), tensor)


def test_sparse_tensors_are_refused() -> None:
    with pytest.raises(LaminarError, match="sparse"):
        to_raw(torch.eye(3).to_sparse())


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.out = nn.Linear(3, 5)
        self.out.weight = self.embed.weight
        self.register_buffer("steps", torch.tensor(3))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)


def test_tied_tensors_are_kept_once_and_loaded_by_any_name() -> None:
    model = Tied()
    tensors, aliases = state(model)
    assert list(tensors) == ["steps", "embed.weight", "out.bias"]
    assert aliases == {"out.weight": "embed.weight"}
    other = Tied()
    raws, _ = raw_state(model)
    load_state(other, raws, aliases)
    assert torch.equal(other.out.weight, model.embed.weight)
    assert other.out.weight is other.embed.weight
    load_state(Tied(), {"steps": tensors["steps"], "out.weight": tensors["embed.weight"], "out.bias": tensors["out.bias"]})
    assert tensors_of(raws, aliases)["out.weight"] is not None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.pop("out.bias"), "wants 'out.bias'"),
        (lambda t: t.update(other=torch.ones(1)), "there is 'other'"),
        (lambda t: t.update({"out.bias": torch.ones(6)}), r"F32\[6\] in the layer and F32\[5\]"),
        (lambda t: t.update({"out.bias": torch.ones(5).double()}), r"F64\[5\]"),
    ],
)
def test_what_does_not_fit_is_said(change: object, says: str) -> None:
    tensors, aliases = state(Tied())
    change(tensors)  # type: ignore[operator]
    model = Tied()
    before = model.out.bias.detach().clone()
    with pytest.raises(LaminarError, match=says) as caught:
        load_state(model, tensors, aliases)
    assert caught.value.code == "L205"
    assert torch.equal(before, model.out.bias)
