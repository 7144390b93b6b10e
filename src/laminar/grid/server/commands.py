"""Commands: what is done for whoever runs the grid: begin, pause and stop a run, ban a node, give out tokens."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import insert, select, update

from laminar.core.errors import LaminarError
from laminar.grid.daemons import own
from laminar.grid.daemons.assimilator import Assimilator, Learner
from laminar.grid.db import nodes, runs, versions
from laminar.grid.db.book import Tx
from laminar.grid.db.schema import nodes as node_table
from laminar.grid.db.schema import runs as run_table
from laminar.grid.server.service import Denied
from laminar.grid.settings import Settings
from laminar.grid.wire.messages import About, Message, Name, Sha
from laminar.grid.wire.model_bytes import digest
from laminar.parallel.aggregate.aggregator import Aggregator


class Begin(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to be trained. Its files, and its first version, were uploaded before."""

    name: Name
    layer: Name
    settings: Settings
    about: Sha
    version: Sha


def begin(tx: Tx, asked: Begin, learner: Learner, now: float) -> dict[str, Any]:
    """Open a run; one of this name that there is already is gone on with."""
    before = runs.named(tx, asked.name)
    if before is not None:
        if before.settings != asked.settings or before.about != asked.about:
            raise Denied(409, "run", f"there is a run '{asked.name}' with other settings")
        if before.state == "stopped":
            _need_files(tx, asked.about)  # what nodes need may have been deleted since
            Assimilator(learner).reopen(tx, before, now)
        return {"name": asked.name, "version": before.version, "state": "open" if before.state == "stopped" else before.state}
    _need_files(tx, asked.about)
    try:
        own.must_be_here(asked.settings.daemons)
    except LaminarError as error:
        raise Denied(409, "daemon", f"where the grid is served {error.message}; {error.hint}") from None
    first = versions.get_file(tx, asked.version)
    if first is None:
        raise Denied(409, "files", "its first version was not uploaded")
    if len(first) != asked.settings.size:
        raise Denied(422, "version", f"its first version has {len(first)} bytes, not {asked.settings.size}")
    machine = Aggregator(asked.settings.rules)
    row = insert(run_table).values(
        name=asked.name,
        layer=asked.layer,
        state="open",
        settings=asked.settings.to_json(),
        about=asked.about,
        size=asked.settings.size,
        aggregator=msgspec.json.encode(machine.state()).decode(),
        version=0,
        made=now,
    )
    id = int(tx.execute(row.returning(run_table.c.id)).scalar_one())
    kept = own.NOTHING if asked.settings.own("assimilator") is not None else learner.begin(asked.settings)
    versions.put(tx, id, 0, digest(first), first, kept, now)
    run = runs.get(tx, id)
    assert run is not None
    Assimilator(learner).start(tx, run, now)
    return {"name": asked.name, "version": 0, "state": "open"}


def _need_files(tx: Tx, sha256: str) -> None:
    """The description of a run, and all that it names."""
    about = versions.get_file(tx, sha256)
    if about is None:
        raise Denied(409, "files", "its files were not uploaded")
    try:
        described = msgspec.json.decode(about, type=About)
    except msgspec.DecodeError as error:
        raise Denied(422, "about", f"its description cannot be read: {error}") from error
    missing = [sha for sha in described.files if versions.get_file(tx, sha) is None]
    if missing:
        raise Denied(409, "files", f"{missing[0][:12]}… was not uploaded")


def set_state(tx: Tx, name: str | None, state: str, now: float, why: str = "") -> list[str]:
    """Pause or open again one run, or all. Their names. A round does not come to its deadline by a pause."""
    before = "open" if state == "paused" else "paused"
    chosen = [run for run in ([_need(tx, name)] if name else runs.all_of(tx, before)) if run.state == before]
    for run in chosen:
        if state == "open":
            machine = runs.aggregator(tx, run)
            machine.stood_still(now)
            runs.keep_aggregator(tx, run.id, machine, sequence=run.sequence)
        runs.save(tx, run.id, state=state, why=why)
    return [run.name for run in chosen]


def stop(tx: Tx, name: str, assimilator: Assimilator, now: float) -> dict[str, Any]:
    """End a run before its time; what it has learned stays."""
    run = _need(tx, name)
    if run.state in ("open", "paused"):
        assimilator.finish(tx, run, now, "stopped", state="stopped")
    fresh = _need(tx, name)
    return {"name": name, "state": fresh.state, "version": fresh.version}


def _need(tx: Tx, name: str) -> runs.Run:
    run = runs.named(tx, name)
    if run is None:
        raise Denied(404, "run", f"there is no run '{name}'")
    return run


def _node(tx: Tx, word: str) -> str:
    found = nodes.find(tx, word)
    if len(found) != 1:
        several = f"{len(found)} nodes have '{word[:40]}' as number or name, or at the beginning of their id: give more of the id"
        raise Denied(404, "node", several if found else f"no node has '{word[:40]}' as number or name, or at the beginning of its id")
    return found[0]


def ban(tx: Tx, word: str, why: str | None) -> dict[str, Any]:
    id = _node(tx, word)
    nodes.ban(tx, id, why)
    return _who(tx, id)


def trust(tx: Tx, word: str, trusted: bool) -> dict[str, Any]:
    id = _node(tx, word)
    tx.execute(update(node_table).where(node_table.c.id == id).values(trusted=trusted))
    return {**_who(tx, id), "trusted": trusted}


def _who(tx: Tx, id: str) -> dict[str, Any]:
    return dict(tx.execute(select(node_table.c.number, node_table.c.name, node_table.c.id).where(node_table.c.id == id)).mappings().one())
