"""Verifying what others keep in a store: runs, checkpoints, features, fingerprints; and the small records beside the layers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.store import locks, records, runs
from laminar.store.findings import Finding, Kind, finding, read_or_nothing
from laminar.store.layout import FORMAT
from laminar.store.runs import FINISHED
from laminar.store.store import Store


def kept_findings(store: Store, *, deep: bool) -> Iterator[Finding]:
    yield from _features(store)
    yield from _lost_features(store)
    yield from _checkpoints(store)
    yield from _runs(store, deep=deep)
    yield from _fingerprints(store)
    yield from _small_records(store)
    yield from _index(store)
    yield from _format(store)


def _features(store: Store) -> Iterator[Finding]:
    """Every block of every features folder, as its index.json says."""
    for index in sorted(store.layout.features.glob("*/index.json")):
        problem: str | None = "?"
        data = b""
        while problem is not None and (now := read_or_nothing(index)) != data:  # a running build may replace files while we look
            data = now
            try:
                problem = _blocks(index.parent, records.load_any(data)) if data else None
            except records.BadRecord as error:
                problem = str(error)
        if problem is not None:
            yield finding(index.parent, "features", "corrupt", problem, name=index.parent.name)


def _lost_features(store: Store) -> Iterator[Finding]:
    """Features that were in use once, have lost their index, and that no build is filling anew."""
    try:
        filling = set(locks.living(store.layout, remove_dead=False).features)
    except LaminarError as error:
        if error.code != "L303":
            raise
        return  # a damaged lease, which is a finding of its own: nobody can say what is being filled
    for used in sorted(store.layout.features.glob("*/used")):
        folder = used.parent
        if folder.name not in filling and not (folder / "index.json").exists() and any(folder.glob("*.bin")):
            yield finding(folder, "features", "missing", "its index.json is gone", name=folder.name)


def _blocks(folder: Path, content: dict[str, Any]) -> str | None:
    for block in content.get("blocks", []):
        path = folder / block["file"]
        try:
            with open(path, "rb") as file:
                file.seek(block["offset"])
                data = file.read(block["size"])
        except FileNotFoundError:
            return f"{path.name} is missing"
        if len(data) != block["size"]:
            return f"{path.name} ends after {block['offset'] + len(data)} bytes"
        if digest.of_bytes(data) != block["sha256"]:
            return f"{path.name}: the {block['size']} bytes from {block['offset']} on are damaged"
    return None


def _checkpoints(store: Store) -> Iterator[Finding]:
    """`checkpoint.json` of a run names its checkpoint files with their sha256."""
    for path in sorted(store.layout.runs.glob("*/checkpoint*.json")):
        problem: str | None = "?"
        data = b""
        while problem is not None and (now := read_or_nothing(path)) != data:  # a running build may write the next one while we look
            data = now
            problem = _checkpoint_problem(path, data) if data else None
        if problem is not None:
            yield finding(path, "checkpoint", "corrupt", problem, name=path.parent.name)


def _checkpoint_problem(path: Path, data: bytes) -> str | None:
    try:
        entries = records.load_any(data).get("checkpoints", [])
    except records.BadRecord as error:
        return str(error)
    for entry in entries:
        try:
            if digest.of_file(path.parent / entry["file"]) != entry["sha256"]:
                return f"{entry['file']} is damaged"
        except FileNotFoundError:
            return f"{entry['file']} is missing"
    return None


def _runs(store: Store, *, deep: bool) -> Iterator[Finding]:
    """The files of every run that is done. Of one under way nobody knows yet what they should hold."""
    for path in sorted(store.layout.runs.glob(f"*/{FINISHED}")):
        wrong = [(path, "?")]
        layers: tuple[str, ...] = ()
        data: bytes | None = None
        while wrong and path.exists() and (now := read_or_nothing(path)) != data:
            data = now
            try:
                content = records.load(data)
                layers = (str(content["id"]),)
                wrong = list(runs.problems(path.parent, content, deep=deep))
            except (records.BadRecord, ValueError, KeyError, TypeError) as error:
                wrong = [(path, str(error))]
        if not path.exists():  # a build began the same run anew while we looked
            continue
        for file, why in wrong:
            yield finding(file, "run", "corrupt" if file.exists() else "missing", why, name=path.parent.name, layers=layers)


class _Fact(msgspec.Struct):
    check: str
    value: msgspec.Raw


def _fingerprints(store: Store) -> Iterator[Finding]:
    """Each is {"check": sha256 of the bytes of "value", "value": …}."""
    for path in sorted(store.layout.fingerprints.glob("*.json")):
        data = read_or_nothing(path)
        try:
            fact = msgspec.json.decode(data, type=_Fact) if data or path.exists() else None
            good = fact is None or digest.of_bytes(bytes(fact.value)) == fact.check
        except (msgspec.MsgspecError, UnicodeDecodeError):
            good = False
        if not good:
            yield finding(path, "fingerprint", "corrupt", "its check does not fit its content", name=path.stem)


def _small_records(store: Store) -> Iterator[Finding]:
    layout = store.layout
    kinds: list[tuple[Path, Kind]] = [(path, "project") for path in sorted(layout.projects.glob("*.json"))]
    kinds += [(path, "rollback") for path in sorted(layout.rollbacks.glob("*.json"))]
    kinds += [(path, "plan") for path in sorted(layout.plans.glob("*/*.json"))]
    kinds += [(path, "lease") for path in sorted(layout.leases.glob("*.json"))]
    kinds += [(path, "sent") for path in sorted(layout.sent.glob("*.json"))]
    kinds.append((layout.remotes, "remotes"))
    for path, kind in kinds:
        try:
            records.read(path)
        except LaminarError as error:
            if error.code != "L303":
                raise
            yield finding(path, kind, "corrupt", error.message, name=path.stem)


def _index(store: Store) -> Iterator[Finding]:
    if count := store.objects.index.damaged():
        yield finding(store.layout.index, "index", "corrupt", f"{count} of its entries are damaged", name="index")


def _format(store: Store) -> Iterator[Finding]:
    path = store.layout.format
    if not path.exists():
        yield finding(path, "format", "missing", f"it should hold {FORMAT}", name="format")
    elif read_or_nothing(path) != f"{FORMAT}\n".encode():
        yield finding(path, "format", "corrupt", f"it should hold {FORMAT}", name="format")
