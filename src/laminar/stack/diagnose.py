"""Diagnose: why the same key gave another layer, and what of a layer's code could not be seen."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.model.fit import run_once
from laminar.model.weights import state
from laminar.stack.specs import LayerSpec
from laminar.store.manifest import BuildRecord
from laminar.train.misgivings import WARNING


def start_of(model: nn.Module, example: torch.Tensor) -> dict[str, str]:
    """What a training begins with, in two digests: the weights that the factories drew, and what the model makes of two samples."""
    tensors, _ = state(model)
    weights = [[name, str(t.dtype), list(t.shape), _sum(t)] for name, t in tensors.items()]
    try:
        output = run_once(model, example)
    except LaminarError:
        output = None
    return {"weights": digest.of_json(weights), "output": digest.of_json(_sum(output) if isinstance(output, torch.Tensor) else "")}


def _sum(tensor: torch.Tensor) -> str:
    """A number that tells two tensors apart quickly: places count, so that a permutation is another."""
    with torch.no_grad():
        flat = tensor.detach().reshape(-1)
        flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
        values = flat.to(torch.float64)
        return repr((float(values.sum()), float((values * torch.arange(1, len(values) + 1, dtype=torch.float64)).sum())))


def why_other(before: BuildRecord, now: BuildRecord) -> str:
    """The same inputs gave another layer."""
    said = f"the same inputs gave {digest.short(before.id)} before and {digest.short(now.id)} now: "
    old, new = before.provenance.get("start"), now.provenance.get("start")
    declare = "name it under reads or env in laminar.toml"
    if old is not None and new is not None and old["weights"] != new["weights"]:
        return said + f"its factory made another model, so it has an input that Laminar does not see; {declare}"
    if old is not None and new is not None and old["output"] != new["output"]:
        return (
            said + f"its forward() computes something else from the same weights, so it has an input that Laminar does not see; {declare}"
        )
    for name in ("threads", "torch", "python", "platform"):
        was, is_now = before.provenance.get(name), now.provenance.get(name)
        if was != is_now:
            return said + f"it was trained with {name} {was} then and {is_now} now"
    was, is_now = before.provenance.get("strategy"), now.provenance.get("strategy")
    if was is not None and was != is_now:
        return said + f"it was trained by {was} then and by {is_now} now, which add the same numbers in another order"
    return said + "this training does not repeat exactly"


def unseen_notes(layer: LayerSpec, unseen: Iterable[str]) -> list[str]:
    """A warning for each thing that was done where Laminar cannot see it, but for what is declared."""
    if layer.reads or layer.env:
        return []
    return [warning(what, "under reads or env in [[layer]]") for what in unseen]


def warning(what: str, where: str) -> str:
    return f"{WARNING}its code {what}: what it learns there is no part of the key, so a change of it would not be seen; name it {where}"
