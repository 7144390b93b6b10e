"""In words: what differs between the inputs of two builds, as people would say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from laminar.core import digest
from laminar.core.figures import many

Change = tuple[str, Any, Any]  # field, from, to
STRATEGY: Final = "train.strategy."


def in_words(differences: list[Change], data: str) -> list[str]:
    """`train.lr 0.001 -> 0.01`, `models.py:convnet changed`, `strategy: none -> averaging, 4 workers`.

    Where another kind of something was chosen, only what both kinds have is compared beside it.
    """
    kinds = {field.removesuffix("kind") for field, _, _ in differences if field.startswith("train.") and field.endswith(".kind")}
    said = []
    for field, old, new in differences:
        if field == f"{STRATEGY}kind":
            said.append(f"strategy: {strategy_in_words(_side(differences, 1))} -> {strategy_in_words(_side(differences, 2))}")
            continue
        others = [prefix for prefix in kinds if field.startswith(prefix) and field != f"{prefix}kind"]
        told = STRATEGY in others and field in (f"{STRATEGY}workers", f"{STRATEGY}compress.kind")
        if not told and not (others and None in (old, new)):
            said.append(_one(field, old, new, data))
    return said


def strategy_in_words(found: Mapping[str, Any]) -> str:
    """Of what a key has of it: `averaging, 4 workers, dgc`."""
    if found.get("kind") is None:
        return "none"
    workers, compress = found.get("workers"), found.get("compress", {}).get("kind")
    more = [many(workers, "worker")] if workers is not None else []
    return ", ".join([found["kind"], *more, *([compress] if compress not in (None, "none") else [])])


def _side(differences: list[Change], side: int) -> dict[str, Any]:
    """The strategy on one side of a change. What both sides have alike is not among the differences, and need not be said."""
    found = {change[0].removeprefix(STRATEGY): change[side] for change in differences if change[0].startswith(STRATEGY)}
    return {"kind": found["kind"], "workers": found.get("workers"), "compress": {"kind": found.get("compress.kind")}}


def _one(field: str, old: Any, new: Any, data: str) -> str:
    if ".code." in field:
        symbol = field.split(".code.", 1)[1]
        state = "is new" if old is None else "is gone" if new is None else "changed"
        return f"{symbol} {state}"
    if field.startswith("seen."):
        return _seen(field.removeprefix("seen."), old, new)
    if field == "data.content":
        return f"content of {data} changed"
    if field == "parent":
        return f"parent {_brief(old)} -> {_brief(new)}"
    return f"{field} {_brief(old)} -> {_brief(new)}"


def _seen(tag: str, old: Any, new: Any) -> str:
    """Of what the layer's code looked at: `weights.bin, which its code reads, changed`."""
    kind, _, what = tag.partition(":")
    if None in (old, new):
        return f"{what} is {'looked at' if old is None else 'not looked at any more'}"
    does = {"folder": "lists", "asked": "asks for", "env": "reads"}.get(kind, "reads")
    name = f"the variable {what}" if kind == "env" else what
    state = "is gone" if new in ("missing", "unset") else "is there now" if old in ("missing", "unset") else "changed"
    return f"{name}, which its code {does}, {state}"


def _brief(value: Any) -> str:
    if isinstance(value, str) and len(value) == 64:
        return digest.short(value)
    if value is None:
        return "none"
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"
