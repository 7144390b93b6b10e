"""Names on a remote: what `URL#name@sha256:id` means, finding the id behind a name, and pointing a name at an id.

A remote's ref says which layer a name means, and no more: the name is the one that was asked for, whatever the file calls itself.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

import msgspec

from laminar.core.digest import short
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean, nearest
from laminar.store import records
from laminar.store.drivers import masked_text
from laminar.store.layout import TAGS, quoted, unquoted
from laminar.store.names import Digest, is_digest, is_ref
from laminar.store.names import is_tag as may_be_tag
from laminar.store.remote_files import Remote
from laminar.store.store import Store

_PIN: Final = re.compile(r"^(?P<name>.*?)@sha256:(?P<id>[0-9a-fA-F]{4,64})$")


class RemoteRef(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    name: str
    pin: str | None = None


def is_remote_ref(text: str) -> bool:
    return "#" in text


def parse_ref(text: str) -> RemoteRef:
    """`URL#name[@sha256:id]`"""
    url, _, rest = text.partition("#")
    name, pin = split_pin(rest)
    if not url or not (name or pin) or "@" in name:
        raise LaminarError(
            "L008",
            f"{masked_text(text)!r} is no remote ref: expected URL#name or URL#name@sha256:<id>",
            hint="e.g. ftp://host/models#digits/head",
        )
    return RemoteRef(url=url, name=name, pin=pin)


def split_pin(text: str) -> tuple[str, str | None]:
    """`name@sha256:id` -> (name, id)"""
    pinned = _PIN.match(text)
    return (pinned["name"], pinned["id"].lower()) if pinned else (text, None)


def is_tag(name: str) -> bool:
    """Refs are `stack/layer`; every other name is a tag's."""
    return not (name.count("/") == 1 and ":" not in name)


def find(remote: Remote, name: str, pin: str | None) -> tuple[str, str]:
    """(id, full name on the remote). A full pin is taken at its word: where the ref points by now does not matter."""
    if pin is not None and len(pin) == 64:
        return pin, ""
    if is_digest(name):
        return name, ""
    id, full = _remote_ref(remote, name)
    if pin is not None and not id.startswith(pin):
        raise LaminarError(
            "L403",
            f"{remote.shown}#{name} is {short(id)}, but {pin} was asked for",
            hint=f"write the full id to get that layer, or pin @sha256:{short(id)}",
        )
    return id, full


def _remote_ref(remote: Remote, name: str) -> tuple[str, str]:
    tried = [_ref_path(name)] if is_ref(name) else []
    tried += [_tag_path(name)] if may_be_tag(name) else []
    for path in tried:
        if (data := remote.read(path)) is not None:
            return _ref_content(remote, path, name, data)
    known = _known(remote)
    found = [full for full in known if full.endswith(f"/{name}") and known[full] == _ref_path(full)]
    if len(found) > 1:
        raise LaminarError("L007", f"{remote.shown} has {name} in {len(found)} stacks: {', '.join(found)}", hint=f"write {found[0]}")
    if found and (data := remote.read(known[found[0]])) is not None:
        return _ref_content(remote, known[found[0]], found[0], data)
    raise LaminarError(
        "L402",
        f"{remote.shown} has no layer or tag {name!r}; {did_you_mean(name, known)}",
        hint=remote.to_push(name)
        if remote.writable or not known
        else f"laminar pull {remote.shown} {shlex.quote(nearest(name, known) or min(known))}",
    )


def _known(remote: Remote) -> dict[str, str]:
    """Name of every ref and tag -> its path. What a listing calls by a name that none of ours has is passed over."""
    known: dict[str, str] = {}
    for stack in sorted(remote.list("refs")):
        for file in remote.list(f"refs/{stack}") if stack == TAGS or is_ref(f"{unquoted(stack)}/x") else ():
            layer = unquoted(file.removesuffix(".json"))
            name = layer if stack == TAGS else f"{unquoted(stack)}/{layer}"
            path = _tag_path(name) if stack == TAGS else _ref_path(name)
            if path == f"refs/{stack}/{file}" and (may_be_tag(name) if stack == TAGS else is_ref(name)):
                known[name] = path
    return known


def _ref_path(name: str) -> str:
    return f"refs/{'/'.join(map(quoted, name.split('/')))}.json"


def _tag_path(name: str) -> str:
    return f"refs/{TAGS}/{quoted(name)}.json"


class _Ref(msgspec.Struct, frozen=True, kw_only=True):
    """A remote's file of a ref, as far as anybody asks."""

    name: str
    id: Digest


def _ref_content(remote: Remote, path: str, name: str, data: bytes) -> tuple[str, str]:
    """(id, name): L403 for a file that is damaged, or that was put in the place of another."""
    try:
        ref = msgspec.json.decode(records.body(data), type=_Ref)
        if ref.name != name:
            raise records.BadRecord(f"it is the ref {ref.name[:80]!r}")
    except (ValueError, RecursionError) as error:
        raise LaminarError("L403", f"{remote.shown}/{path} is damaged: {error}", hint=remote.to_push("REF")) from None
    return ref.id, name


def set_ref(store: Store, remote: Remote, name: str, id: str) -> None:
    tag = is_tag(name)
    path = _tag_path(name) if tag else _ref_path(name)
    if remote.folder is not None and (remote.folder / "format").exists():  # a living store, not a mere copy: its refs have logs
        locks = [f"locks/{name}" for name in remote.list("locks")]
        remote.must_lead_inside("format", "tmp", "locks", *locks, path, f"{path.removesuffix('.json')}.log")
        other = Store.open(remote.folder, create=False)
        if tag:
            other.refs.tag(name, id, force=True, why="push")
        else:
            other.refs.move(name, id, "push", op="pull")
        return
    remote.put(path, records.dump({"name": name, "id": id, "pushed": store.clock.now()}))
