"""Resolve: what a person types -> the id of a layer.

head                  the layer of the current stack
digits/head           a layer of any stack
head~2                the one two before, in the ref's history; `~` alone is ~1
digits:v1             a tag
3fa9c1                the beginning of an id, four digits or more
head@sha256:3fa9c1    pinned: the id decides, the name is for the reader
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from laminar.core.digest import short
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean

if TYPE_CHECKING:
    from laminar.store.store import Store

SHORTEST: Final = 4
_PINNED: Final = re.compile(r"^(?P<name>[^@]*)@sha256:(?P<id>[0-9a-fA-F]+)$")
_BACK: Final = re.compile(r"^(?P<name>.+?)~(?P<steps>\d*)$")
_HEX: Final = re.compile(r"^[0-9a-fA-F]{4,64}$")


def resolve(store: Store, text: str, stack: str | None = None) -> str:
    """The id; L006 (with the nearest name) when there is none, L007 when there are several."""
    text = text.strip()
    if pinned := _PINNED.match(text):
        return by_prefix(store, pinned["id"])
    if back := _BACK.match(text):
        name = ref_name(store, back["name"], stack)
        if name is None:
            raise LaminarError("L006", f"{text!r} counts back from a ref, but {_unknown(store, back['name'], stack)}", hint="laminar log")
        return store.refs.at(name, int(back["steps"] or 1))
    if ":" in text and (tagged := store.refs.tagged(text)):
        return tagged
    name = ref_name(store, text, stack)
    if name is not None and (id := store.refs.get(name)):
        return id
    if tagged := store.refs.tagged(text):
        return tagged
    if _HEX.match(text):
        return by_prefix(store, text)
    raise LaminarError("L006", _unknown(store, text, stack), hint="laminar log")


def ref_name(store: Store, text: str, stack: str | None = None) -> str | None:
    """The full name of a ref: `head` -> `digits/head`. None when there is no such ref; L007 when it could be several."""
    names = store.refs.names()
    if text in names:
        return text
    if stack is not None and f"{stack}/{text}" in names:
        return f"{stack}/{text}"
    if "/" not in text and stack is None:
        found = [name for name in names if name.endswith(f"/{text}")]
        if len(found) > 1:
            raise LaminarError("L007", f"{text!r} is a layer of {len(found)} stacks: {', '.join(found)}", hint=f"write {found[0]}")
        return found[0] if found else None
    return None


def by_prefix(store: Store, prefix: str) -> str:
    prefix = prefix.lower()
    if len(prefix) < SHORTEST:
        raise LaminarError("L008", f"{prefix!r} is too short for an id: expected {SHORTEST} digits or more", hint="laminar log")
    found = [id for id in store.layers() if id.startswith(prefix)]
    if not found and (gone := once_named(store, prefix)):
        name, id = gone
        raise LaminarError(
            "L305",
            f"{short(id)} was {name} once, but is no longer in the store (gc --keep lets old layers go)",
            hint=f"laminar pull REMOTE {name}@sha256:{id} where a remote has it; laminar log shows what is here",
        )
    if not found:
        raise LaminarError("L006", f"no layer has an id that begins with {prefix}", hint="laminar log, or laminar pull REMOTE REF")
    if len(found) > 1:
        shown = ", ".join(id[: len(prefix) + 4] for id in found[:4])
        raise LaminarError("L007", f"{len(found)} layers have an id that begins with {prefix}: {shown}", hint="write more digits")
    return found[0]


def once_named(store: Store, prefix: str) -> tuple[str, str] | None:
    """(ref, id) of a layer that a ref has been and whose id begins so, whether it is here or not; the last such ref by name."""
    found = [(name, entry.id) for name in store.refs.names() for entry in store.refs.log(name) if entry.id.startswith(prefix)]
    return found[-1] if found else None


def _unknown(store: Store, text: str, stack: str | None) -> str:
    names = store.refs.names()
    bare = [name.split("/", 1)[1] for name in names if stack is not None and name.startswith(f"{stack}/")]
    return f"there is no layer, tag or id {text!r} in the store; {did_you_mean(text, [*names, *bare, *store.refs.tags(damaged=False)])}"
