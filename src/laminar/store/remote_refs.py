"""Names on a remote: what `URL#name@sha256:id` means, finding the id behind a name, and pointing a name at an id."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from laminar.core.digest import short
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean, nearest
from laminar.store import records
from laminar.store.drivers import masked_text
from laminar.store.layout import TAGS, quoted, unquoted
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
    if re.fullmatch(r"[0-9a-f]{64}", name):
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
    tried = [f"refs/{'/'.join(map(quoted, name.split('/')))}.json"] if "/" in name else []
    tried.append(f"refs/{TAGS}/{quoted(name)}.json")
    for path in tried:
        if (data := remote.read(path)) is not None:
            return _ref_content(remote, path, data)
    known: dict[str, str] = {}
    for stack in sorted(remote.list("refs")):
        for file in remote.list(f"refs/{stack}"):
            if file.endswith(".json"):
                layer = unquoted(file.removesuffix(".json"))
                known[layer if stack == TAGS else f"{unquoted(stack)}/{layer}"] = f"refs/{stack}/{file}"
    found = [full for full in known if full.endswith(f"/{name}") and not known[full].startswith(f"refs/{TAGS}/")]
    if len(found) > 1:
        raise LaminarError("L007", f"{remote.shown} has {name} in {len(found)} stacks: {', '.join(found)}", hint=f"write {found[0]}")
    if found and (data := remote.read(known[found[0]])) is not None:
        return _ref_content(remote, known[found[0]], data)
    raise LaminarError(
        "L402",
        f"{remote.shown} has no layer or tag {name!r}; {did_you_mean(name, known)}",
        hint=remote.to_push(name) if remote.writable or not known else f"laminar pull {remote.shown} {nearest(name, known) or min(known)}",
    )


def _ref_content(remote: Remote, path: str, data: bytes) -> tuple[str, str]:
    try:
        content = records.load(data)
        return str(content["id"]), str(content["name"])
    except (records.BadRecord, KeyError) as error:
        raise LaminarError("L403", f"{remote.shown}/{path} is damaged: {error}", hint=remote.to_push("REF")) from None


def set_ref(store: Store, remote: Remote, name: str, id: str) -> None:
    tag = is_tag(name)
    if remote.folder is not None and (remote.folder / "format").exists():  # a living store, not a mere copy: its refs have logs
        other = Store.open(remote.folder, create=False)
        if tag:
            other.refs.tag(name, id, force=True, why="push")
        else:
            other.refs.move(name, id, "push", op="pull")
        return
    path = f"refs/{TAGS}/{quoted(name)}.json" if tag else f"refs/{'/'.join(map(quoted, name.split('/')))}.json"
    remote.put(path, records.dump({"name": name, "id": id, "pushed": store.clock.now()}))
