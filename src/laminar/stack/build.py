"""Build: walk the stack bottom up; reuse what has been built from equal inputs, train the rest, move the refs last.

Locks are per key: two builds of one store run side by side, and a layer both need is trained by one while the other waits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from laminar.core.clock import SYSTEM, Clock
from laminar.core.events import Emit, nowhere
from laminar.data.count import known_training_samples
from laminar.data.fingerprint import forget
from laminar.stack.key import key_of
from laminar.stack.parents import resolve
from laminar.stack.plan import Step, decide, fingerprint_folder, plan
from laminar.stack.read import StackFile, bottom_up, parent_of
from laminar.stack.seen import without_seen
from laminar.stack.specs import LayerSpec
from laminar.stack.team_heard import TeamHeard
from laminar.stack.whole_batch import batch_note
from laminar.store.manifest import BuildRecord
from laminar.store.store import Store
from laminar.train.misgivings import WARNING
from laminar.train.recipe import Recipe

if TYPE_CHECKING:
    from laminar.stack.train_layer import Train


@dataclass(frozen=True)
class Built:
    """What happened to one layer."""

    name: str
    id: str
    key: str
    action: Literal["built", "cached"]
    why: str
    seconds: float  # spent in this build, in all
    saved: float  # of training that was not needed, because it had been done before
    metrics: dict[str, float]
    notes: list[str] = field(default_factory=list)
    features: str = ""  # what was done about the frozen prefix
    spent: dict[str, float] = field(default_factory=dict)  # of the seconds: on "features", "training" with its "checkpoints", "keeping"
    team: dict[str, Any] = field(default_factory=dict)  # where several workers trained it: workers, bytes, staleness, …

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "id": self.id,
            "key": self.key,
            "action": self.action,
            "why": self.why,
            "seconds": round(self.seconds, 3),
            "spent": {name: round(value, 3) for name, value in self.spent.items()},
            "saved_seconds": round(self.saved, 3),
            "metrics": self.metrics,
            "features": self.features,
            "notes": self.notes,
            "team": self.team,
        }


@dataclass(frozen=True)
class BuildReport:
    stack: str
    layers: list[Built]

    @property
    def reused(self) -> list[Built]:
        return [layer for layer in self.layers if layer.action == "cached"]

    def to_json(self) -> dict[str, Any]:
        return {"stack": self.stack, "layers": [layer.to_json() for layer in self.layers]}


def build(
    file: StackFile,
    store: Store,
    *,
    targets: list[str] | None = None,
    force: bool = False,
    emit: Emit = nowhere,
    clock: Clock = SYSTEM,
    how: Train | None = None,
    soon: Callable[[Recipe], None] | None = None,
    named: bool = True,
    like: str | None = None,
) -> BuildReport:
    """Train what is missing or changed, parents first. `force` trains the targets (or everything) even when nothing changed.

    `how`: whatever trains a job elsewhere than on this machine (launch/on_cluster.py). `soon` is told what is going to be trained, before
    anything is loaded for it. Unless `named`, no ref is moved to what was built: whoever asked for it has to keep it from gc. `like` is a
    layer whose graph may be that of the targets too; where it is, they need not be exported anew.
    """
    done: dict[str, Built] = {}
    order = bottom_up(file, targets)
    for name in {layer.data for layer in order if force and (not targets or layer.name in targets)}:
        forget(file.spec.data[name], file.root, fingerprint_folder(store))
    steps = plan(file, store, targets=targets, force=force)  # every mistake that can be seen without training is seen before it
    ready = {step.layer.name: step for step in steps if step.action == "cached"}
    if len(ready) < len(steps) and soon is None:
        import laminar.stack.train_layer  # noqa: F401 - torch takes a second to load, which is no part of any layer's time
    shown = {step.layer.name: store.refs.get(f"{file.spec.stack.name}/{step.layer.name}") for step in steps}
    idle = all(name in ready and shown[name] == ready[name].id for name in shown)
    # Where every layer is there and has its ref, gc spares them, and there is nothing to write, not even a lease.
    held = contextlib.nullcontext(None) if idle else store.lease(layers=[step.id for step in ready.values() if step.id])
    with held as lease:
        if lease is not None:  # gc may have been quicker than the lease
            ready = {name: step for name, step in ready.items() if step.id and store.has_layer(step.id)}
        for number, layer in enumerate(order):
            parent_name = parent_of(file.spec, layer)
            parent = done[parent_name].id if parent_name in done else resolve(file, store, layer, parent_name)
            if parent is not None and lease is not None:
                lease.add(layers=[parent])
            forced = force and (not targets or layer.name in targets)
            emit({"event": "layer", "layer": layer.name, "number": number, "of": len(order)})
            ref = f"{file.spec.stack.name}/{layer.name}" if named else None
            built = _one(file, store, layer, parent, forced, emit, clock, ready.get(layer.name), how, soon, ref, like)
            if lease is not None:
                lease.add(layers=[built.id])
            done[layer.name] = built
            emit({"event": "layer-done", "layer": layer.name, "action": built.action, "seconds": built.seconds, "metrics": built.metrics})
    if named:
        _register(file, store, done)
    return BuildReport(file.spec.stack.name, [done[layer.name] for layer in order])


def _one(
    file: StackFile,
    store: Store,
    layer: LayerSpec,
    parent: str | None,
    forced: bool,
    emit: Emit,
    clock: Clock,
    ready: Step | None,
    how: Train | None,
    soon: Callable[[Recipe], None] | None,
    ref: str | None,
    like: str | None,
) -> Built:
    """Reuse or train one layer. `ready` is the plan's word that it can be reused, good for the parent it was given on."""
    start = clock.monotonic()
    step = ready if ready is not None and ready.parent == parent else decide(file, store, layer, parent, forced=forced)
    if step.action == "cached":
        return _reuse(store, ref, step, start, clock)
    assert step.key is not None
    assert step.inputs is not None
    with _turn(store, key_of(without_seen(step.inputs)), layer.name, emit):
        again = decide(file, store, layer, parent, forced=forced)
        if again.action == "cached":  # another build trained it while this one waited
            return _reuse(store, ref, again, start, clock)
        if soon is not None:
            soon(layer.train)  # now that nobody else is training it, and before torch is loaded
        from laminar.stack.train_layer import train_layer  # here, because it brings torch: a build that reuses all needs none

        assert again.key is not None and again.inputs is not None
        heard = TeamHeard(emit)
        outcome = train_layer(file, store, again, again=forced, ref=ref, emit=heard, clock=clock, how=how, like=like)
    return Built(
        name=layer.name,
        id=outcome.id,
        key=outcome.key,
        action="built",
        why=step.why,
        seconds=clock.monotonic() - start,
        saved=0.0,
        metrics=outcome.metrics,
        notes=outcome.notes,
        features=outcome.features,
        spent=outcome.spent,
        team=heard.team,
    )


def _reuse(store: Store, ref: str | None, step: Step, start: float, clock: Clock) -> Built:
    record: BuildRecord | None = step.record
    assert record is not None and step.inputs is not None
    why = step.why
    whole = batch_note(step.layer, known_training_samples(step.inputs["data"], fingerprint_folder(store)))
    if ref is not None and store.refs.get(ref) != record.id:
        store.refs.move(ref, record.id, why="build (cached)")
        why += "; the ref moved to it"
    return Built(
        name=step.layer.name,
        id=record.id,
        key=record.key,
        action="cached",
        why=why,
        seconds=clock.monotonic() - start,
        saved=record.seconds,
        metrics=record.metrics,
        # a bad layer is no better for being reused
        notes=[*(note for note in store.layer(record.id).notes if note.startswith(WARNING)), *([whole] if whole else [])],
    )


@contextlib.contextmanager
def _turn(store: Store, key: str, name: str, emit: Emit) -> Iterator[None]:
    def waiting() -> None:
        emit({"event": "waiting", "layer": name, "why": "another build is training it"})

    with store.lock(f"key-{key}", on_wait=waiting):
        yield


def _register(file: StackFile, store: Store, done: dict[str, Built]) -> None:
    """Tell the store what this project stands on, so that a gc run from another project that shares the store keeps it."""
    store.register_project(file.root, {f"{file.spec.stack.name}/{name}": built.id for name, built in done.items()})
