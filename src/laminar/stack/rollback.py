"""Rollback: move a layer's ref back along its history, and forward again; with `write`, laminar.toml goes along.

Nothing is deleted: the log only grows, so every layer a ref ever showed can be shown again. A rollback that writes laminar.toml keeps its
text under the number of the rollback in the ref's log, so that redo takes back the text of the very rollback it undoes. The file is
written before the ref moves: what cannot be written moves nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import tomlkit
import tomlkit.items

from laminar.core import atomic, digest
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.stack.as_written import without_secrets
from laminar.stack.key import in_order
from laminar.stack.read import StackFile, parse
from laminar.store import records
from laminar.store.layout import quoted
from laminar.store.manifest import BuildRecord
from laminar.store.reflog import Entry, State, Undo
from laminar.store.resolve import once_named, resolve
from laminar.store.store import Store


@dataclass(frozen=True)
class Moved:
    ref: str
    before: str
    after: str
    wrote: list[str] = field(default_factory=list)  # settings of laminar.toml that were set back
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {"ref": self.ref, "from": self.before, "to": self.after, "wrote": self.wrote, "notes": self.notes}


def rollback(file: StackFile, store: Store, target: str, *, write: bool = False) -> Moved:
    """`head` (one back), `head~2`, `head@ID` or an id that some layer of this stack has shown before."""
    ref, steps, to = _target(file, store, target)
    before = store.refs.get(ref)
    if before is None:
        raise LaminarError("L010", f"{ref} has never been built: there is nothing to roll back", hint="laminar build")
    if not write:
        after = store.refs.to(ref, to) if to is not None else store.refs.back(ref, steps)
        return Moved(ref, before, after, notes=["laminar.toml is as it was; the next build goes by it. --write sets it back too"])
    _need_layer(file, ref)
    wrote: list[str] = []
    notes: list[str] = []

    def first(state: State, entry: Entry) -> None:
        text, changes, said = _new_text(file, store, ref, entry.id)
        notes.extend(said)
        if not changes:
            return
        content = {"ref": ref, "n": entry.n, "time": entry.time, "text": file.text, "after": digest.of_bytes(text.encode())}
        _forget(store, ref, keep={undo.n for undo in state.undo})
        records.write(_saved(store, ref, entry.n), content, tmp=store.layout.tmp)
        atomic.write_text(file.path, text)
        wrote.extend(changes)

    if to == before:
        _, changes, said = _new_text(file, store, ref, before)
        if not changes:
            return Moved(ref, before, before, notes=said or ["laminar.toml says so already"])
    try:
        after = store.refs.to(ref, to, first=first, again=True) if to is not None else store.refs.back(ref, steps, first=first)
    except Exception:
        if wrote:  # the ref could not be moved after all
            atomic.write_text(file.path, file.text)
        raise
    return Moved(ref, before, after, wrote, notes)


def redo(file: StackFile, store: Store, name: str | None = None) -> Moved:
    """Undo the last rollback of a layer (default: of the layer of this stack that was rolled back last)."""
    ref = _ref(file, store, name) if name else _last_rolled_back(file, store)
    before = store.refs.get(ref)
    assert before is not None
    wrote: list[str] = []
    notes: list[str] = []
    done: list[Undo] = []

    def first(state: State, _: Entry) -> None:
        undo = state.undo[-1]
        done.append(undo)
        try:
            memory = records.read(_saved(store, ref, undo.n))
        except LaminarError as error:
            notes.append(f"laminar.toml is left as it is: {error.message}")
            return
        if memory is None or memory["ref"] != ref or memory["time"] != undo.time:  # that of a rollback that never came to be
            return
        if file.text == memory["text"]:
            return
        if digest.of_bytes(file.text.encode()) != memory["after"]:
            notes.append("laminar.toml was edited since the rollback, so it is left as it is")
            return
        atomic.write_text(file.path, memory["text"])
        wrote.append("the file as it was before the rollback")

    try:
        after = store.refs.redo(ref, first=first)
    except Exception:
        if wrote:
            atomic.write_text(file.path, file.text)
        raise
    for undo in done:
        _saved(store, ref, undo.n).unlink(missing_ok=True)
    return Moved(ref, before, after, wrote, notes)


def _need_layer(file: StackFile, ref: str) -> None:
    """L006 unless the ref is of a layer that stands in the file."""
    stack, name = ref.split("/", 1)
    here, names = file.spec.stack.name, [layer.name for layer in file.spec.layer]
    if stack != here:
        raise LaminarError(
            "L006",
            f"{ref} is of the stack '{stack}', but {file.path.name} is of '{here}': it cannot be set back",
            hint=f"laminar rollback {ref}, without --write, or run it in the folder of '{stack}'",
        )
    if name not in names:
        raise LaminarError(
            "L006",
            f"there is no layer '{name}' in {file.path.name} to set back; {did_you_mean(name, names)}",
            hint=f'laminar rollback {name}, without --write, or add [[layer]] with name = "{name}"',
        )


def _new_text(file: StackFile, store: Store, ref: str, id: str) -> tuple[str, list[str], list[str]]:
    """As `set_back`, for the layer of a ref at an id."""
    name = ref.split("/", 1)[1]
    record = _record(store, ref, id)
    if record is None:
        note = f"the store does not know how {digest.short(id)} was written (it was pulled or imported): laminar.toml is as it was"
        return file.text, [], [note]
    if f"{record.stack}/{record.name}" == ref:
        return set_back(file, name, record)
    text, wrote, notes = set_back(file, name, _under_its_name_here(file, store, name, record))
    return text, wrote, [f"{digest.short(id)} was built as {record.stack}/{record.name}: its settings are those", *notes]


def _under_its_name_here(file: StackFile, store: Store, name: str, record: BuildRecord) -> BuildRecord:
    """The record of a layer that was built under another name, as this file would say it: its names, where they mean the same."""
    table = file.raw["layer"][file.layer_index(name)]
    spec = {**record.spec, "name": name}
    stack, names = file.spec.stack.name, {layer.name for layer in file.spec.layer}
    below = table.get("from")
    renamed = below in names and spec.get("from") not in (None, *names)
    if renamed and store.refs.get(f"{stack}/{below}") == store.layer(record.id).parent:
        spec["from"] = below
    data = record.data
    if data is not None:
        content = {k: v for k, v in data.items() if k != "name"}
        tables = file.raw["data"]
        same = [n for n in (table["data"], data["name"], *tables) if content in (tables.get(n), without_secrets(tables.get(n)))]
        if same:
            spec["data"], data = same[0], {"name": same[0], **content}
    return msgspec.structs.replace(record, spec=spec, data=data)


def set_back(file: StackFile, name: str, record: BuildRecord) -> tuple[str, list[str], list[str]]:
    """The text of the file with one layer and its data as they were at `record`; comments and everything else are kept."""
    document = tomlkit.parse(file.text)
    wrote: list[str] = []
    notes: list[str] = []
    layers: Any = document["layer"]
    table = next(t for t in layers if t["name"] == name)
    _become(table, record.spec, f"layer {name}", wrote)
    if record.data is not None:
        data = {k: v for k, v in record.data.items() if k != "name"}
        data_name = record.data["name"]
        tables: Any = document.setdefault("data", tomlkit.table(is_super_table=True))
        if data_name not in tables:
            tables[data_name] = tomlkit.table()
        others = [x.name for x in file.spec.layer if x.data == data_name and x.name != name]
        before = len(wrote)
        _become(tables[data_name], data, f"data.{data_name}", wrote)
        if len(wrote) > before and others:
            notes.append(f"data.{data_name} is used by {', '.join(others)} too: a build trains those again")
    text = tomlkit.dumps(document)
    parse(text, file.path)  # what is written must be readable
    return text, wrote, notes


def _become(table: Any, wanted: dict[str, Any], where: str, wrote: list[str]) -> None:
    """Change a TOML table in place until it says `wanted`; what already does keeps its layout and comments."""
    for key in [k for k in table if k not in wanted]:
        wrote.append(f"{where}.{key}: removed")
        del table[key]
    for key, value in wanted.items():
        old = table.get(key)
        if isinstance(old, tomlkit.items.InlineTable | tomlkit.items.Table) and isinstance(value, dict):
            _become(old, value, f"{where}.{key}", wrote)
            ordered = _ordered_like(_plain(old), value)
            if key == "args" and json.dumps(ordered) != json.dumps(_plain(old)):  # a factory sees their order
                wrote.append(f"{where}.args: in the order of {', '.join(value)}")
                table[key] = _item(ordered)
        elif old is None or value not in (_plain(old), without_secrets(_plain(old))):  # a record has no passwords: those here stay
            wrote.append(f"{where}.{key}: {'(none)' if old is None else without_secrets(_plain(old))} -> {value}")
            fresh = _item(value)
            if old is not None and hasattr(old, "trivia") and hasattr(fresh, "trivia"):
                fresh.trivia.comment_ws, fresh.trivia.comment = old.trivia.comment_ws, old.trivia.comment
            table[key] = fresh


def _ordered_like(values: Any, model: Any) -> Any:
    """`values`, whose tables have the keys of `model`, in its order."""
    if isinstance(values, dict) and isinstance(model, dict):
        return {key: _ordered_like(values[key], model[key]) for key in model if key in values}
    if isinstance(values, list) and isinstance(model, list):
        return [_ordered_like(inner, like) for inner, like in zip(values, model, strict=False)]
    return values


def _plain(item: Any) -> Any:
    return item.unwrap() if hasattr(item, "unwrap") else item


def _item(value: Any) -> Any:
    if isinstance(value, dict):
        inline = tomlkit.inline_table()
        for key, inner in value.items():
            inline[key] = _item(inner)
        return inline
    return tomlkit.item(value)


def _record(store: Store, ref: str, id: str) -> BuildRecord | None:
    """How a layer was written: by this ref if it was, else by whoever built the same layer. What was imported has nothing written."""
    stack, name = ref.split("/", 1)
    found = [r for r in store.records() if r.id == id and r.spec]
    record = max(found, key=lambda r: (r.stack == stack and r.name == name, r.stack == stack, r.created), default=None)
    if record is None or not record.order:
        return record
    spec, data = (in_order(table, record.order.get(name, [])) for name, table in (("spec", record.spec), ("data", record.data)))
    return msgspec.structs.replace(record, spec=spec, data=data)


def _target(file: StackFile, store: Store, text: str) -> tuple[str, int, str | None]:
    """(ref, steps back, id to go to) of what the user wrote."""
    if found := re.fullmatch(r"(.+?)~(\d+)", text):
        return _ref(file, store, found[1]), int(found[2]), None
    if found := re.fullmatch(r"(.+?)@(?:sha256:)?([0-9a-f]{4,64})", text):
        ref = _ref(file, store, found[1])
        return ref, 0, _id(file, store, found[2])
    names = {layer.name for layer in file.spec.layer}
    if text in names or f"{file.spec.stack.name}/{text}" in store.refs.names() or text in store.refs.names():
        return _ref(file, store, text), 1, None
    if re.fullmatch(r"[0-9a-f]{4,64}", text):
        id = _id(file, store, text)
        holders = [r for r in store.refs.names() if r.startswith(file.spec.stack.name + "/") and id in {e.id for e in store.refs.log(r)}]
        if len(holders) == 1:
            return holders[0], 0, id
        raise LaminarError(
            "L006",
            f"{digest.short(id)} is in the history of {', '.join(holders) or 'no layer of this stack'}",
            hint=f"laminar rollback {holders[0] if holders else 'LAYER'}@{text}",
        )
    return _ref(file, store, text), 1, None


def _id(file: StackFile, store: Store, text: str) -> str:
    """The whole id, also of a layer that was here once: going there says what is left."""
    try:
        return resolve(store, text, file.spec.stack.name)
    except LaminarError as error:
        if error.code != "L305" or (gone := once_named(store, text)) is None:
            raise
        return gone[1]


def _ref(file: StackFile, store: Store, name: str) -> str:
    ref = name if "/" in name else f"{file.spec.stack.name}/{name}"
    names = store.refs.names()
    if ref not in names:
        short = [n.split("/", 1)[1] for n in names if n.startswith(file.spec.stack.name + "/")]
        raise LaminarError(
            "L006", f"no layer '{name}' has been built here; {did_you_mean(name, short)}", hint="laminar log lists what has been built"
        )
    return ref


def _last_rolled_back(file: StackFile, store: Store) -> str:
    mine = [ref for ref in store.refs.names() if ref.startswith(file.spec.stack.name + "/")]
    found = [(undo[-1].time, ref) for ref in mine if (undo := store.refs.redoable(ref))]
    if not found:
        raise LaminarError(
            "L010", f"no layer of {file.spec.stack.name} was rolled back since its last build: there is nothing to redo", hint="laminar log"
        )
    return max(found)[1]


def _saved(store: Store, ref: str, n: int) -> Path:
    return store.layout.rollbacks / f"{quoted(ref)}-{n}.json"


def _forget(store: Store, ref: str, *, keep: set[int]) -> None:
    """Delete the texts of rollbacks that can no longer be redone."""
    for path in store.layout.rollbacks.glob("*.json"):
        head, _, number = path.stem.rpartition("-")
        if head == quoted(ref) and number.isdecimal() and int(number) not in keep:
            path.unlink(missing_ok=True)
