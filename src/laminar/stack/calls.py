"""Calls: which functions of the project the record of a layer calls, and with what. A record that came from elsewhere may be forged.

A stranger who knows a project knows the digests of its source, so "the code has not changed" proves nothing about who wrote the record. He
could name any function that a module of the project has, also one that it has only imported (`from subprocess import run`), and choose its
arguments. What the user's own stack file calls, with the same arguments, is what a build would call anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.stack.key import normalised, order_of
from laminar.stack.read import StackFile
from laminar.store.manifest import check_input

MOST: Final = 1 << 20  # classes, or numbers to predict


def may_call(steps: Any, file: StackFile | None) -> bool:
    """Is every call of these steps one of the stack file's?"""
    if file is None or not isinstance(steps, list):
        return False
    named = set(_named(file))
    try:
        return all(_call(step.get("replace"), step["factory"], step["args"], step.get("order", [])) in named for step in steps) and all(
            _plain(step["known"]) for step in steps
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, LaminarError):
        return False


def calls_text(steps: Any) -> str:
    """What is called, in a line. The record may be anything."""
    try:
        return ", ".join(f"{step['factory']}({digest.canonical(step['args']).decode()})" for step in steps)[:300]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, LaminarError):
        return "they cannot be read"


def _named(file: StackFile) -> Iterator[bytes]:
    for layer in file.spec.layer:
        if layer.model is not None:
            yield _call(None, layer.model, normalised(layer.args), order_of(layer.args, top=True))
        for path, to in layer.replacements().items():
            yield _call(path, to.model, normalised(to.args), order_of(to.args, top=True))


def _call(path: Any, factory: Any, args: Any, order: Any) -> bytes:
    return digest.canonical([path, factory, args, order])


def _plain(known: Any) -> bool:
    """Is it what make.py knows of a layer's data, and nothing else? It is given to factories that ask for it."""
    if not isinstance(known, dict) or not known.keys() <= {"classes", "input_shape"}:
        return False
    classes = known.get("classes", 1)
    check_input({"shape": msgspec.convert(known.get("input_shape", []), list[int])})
    return type(classes) is int and 0 < classes <= MOST
