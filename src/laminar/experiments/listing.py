"""Listing: every experiment of a store in a line, the damaged ones too. For `laminar experiment list` and the dashboard."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from laminar.core.errors import LaminarError
from laminar.experiments.files import read_description, read_trials
from laminar.experiments.view import View, view
from laminar.store.store import Store


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """`error` and `hint`: it cannot be read, and then only its name is known."""

    name: str
    title: str = ""
    question: str = ""
    stack: str = ""
    layer: str = ""
    axes: tuple[str, ...] = ()
    variants: int = 0
    done: int = 0
    planned: int = 0
    failed: int = 0
    stopped: int = 0  # early, by halving
    quick: bool = False
    created: float = 0.0
    error: str = ""
    hint: str = ""


def read_view(store: Store, name: str) -> View:
    """L018 when there is none of this name, L303 when it is damaged."""
    return view(read_description(store, name), read_trials(store, name))


def listed(name: str, read: Callable[[str], View]) -> Listed:
    try:
        found = read(name)
    except LaminarError as error:  # the others are listed all the same
        return Listed(name=name, error=error.message, hint=error.hint)
    description, told = found.description, found.summary
    return Listed(
        name=name,
        title=description.title,
        question=description.question,
        stack=description.stack,
        layer=description.layer,
        axes=tuple(axis.name for axis in description.axes),
        variants=len(description.variants),
        done=told.done,
        planned=told.planned,
        failed=len(told.failures),
        stopped=sum(row.stopped for row in told.rows),
        quick=description.quick,
        created=description.created,
    )
