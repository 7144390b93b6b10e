"""Specs: what may be written in laminar.toml. No torch: status, explain and plan read these alone."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from laminar.data.spec import DataSpec
from laminar.train.recipe import Recipe


class StackTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    store: str | None = None  # a folder several projects share; default: .laminar beside the file
    environment: Literal["strict", "minor", "ignore"] = "minor"  # how much of torch's version is part of the key


class ReplaceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: str
    args: dict[str, Any] = {}


class LayerSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    data: str
    train: Recipe
    model: str | None = None
    args: dict[str, Any] = {}
    from_: str | None = msgspec.field(name="from", default=None)
    freeze: list[str] = []
    replace: dict[str, str | ReplaceSpec] = {}
    reads: list[str] = []  # files that its code reads where Laminar cannot see it, by pattern
    env: list[str] = []  # variables, likewise

    def replacements(self) -> dict[str, ReplaceSpec]:
        """By path, outer modules before what is inside them, in whatever order they were written."""
        return {path: ReplaceSpec(model=to) if isinstance(to, str) else to for path, to in sorted(self.replace.items())}


class StackSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    stack: StackTable
    layer: list[LayerSpec]
    data: dict[str, DataSpec] = {}
    remotes: dict[str, str] = {}  # short names for `laminar push NAME REF`
