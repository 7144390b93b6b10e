"""Messages between an evaluator and its desk. The evaluator calls, says who it is, and answers what it is asked until the line ends."""

from __future__ import annotations

from typing import Any

import msgspec


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="say", forbid_unknown_fields=True):
    pass


class Here(Message, frozen=True, kw_only=True, tag="here"):
    pid: int
    host: str


class Alive(Message, frozen=True, kw_only=True, tag="alive"):
    """Nothing to say, and still at work."""


class Test(Message, frozen=True, kw_only=True, tag="test"):
    """Bytes: the tensors of the model that are not frozen, as safetensors."""

    __test__ = False  # for pytest

    number: int


class Sums(Message, frozen=True, kw_only=True, tag="sums"):
    number: int
    sums: list[float | None]  # train/evaluate.py; JSON has no word for what is not finite


class Failed(Message, frozen=True, kw_only=True, tag="failed"):
    """The model cannot be tested, by whomever."""

    number: int
    code: str
    message: str
    hint: str


Said = Here | Alive | Sums | Failed


def said(header: dict[str, Any]) -> Said:
    """msgspec.ValidationError if it is none."""
    found: Said = msgspec.convert(header, Said)
    return found
