"""Train one layer: make its model, freeze, keep features, train, export, and commit to the store."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from laminar.core import atomic
from laminar.core.clock import Clock
from laminar.core.errors import LaminarError
from laminar.core.events import Emit
from laminar.core.figures import many
from laminar.core.observe import ChangedMeanwhile, Looking
from laminar.data.count import remember_training_samples
from laminar.data.fingerprint import fingerprint
from laminar.data.open import open_data
from laminar.data.sources.protocol import Progress as DataProgress
from laminar.model.isolation import undone
from laminar.stack.as_written import data_as_written, layer_as_written
from laminar.stack.diagnose import start_of, unseen_notes, why_other
from laminar.stack.foreign import stands_on_foreign
from laminar.stack.keep import About, keep
from laminar.stack.key import key_of, located, order_of
from laminar.stack.make import make
from laminar.stack.open_job import ROUTE, Description, fit_model, prepare_job
from laminar.stack.plan import Step, fingerprint_folder, known, run_of, seen_of
from laminar.stack.read import StackFile
from laminar.stack.seen import Seen, with_seen, without_seen
from laminar.stack.whole_batch import batch_note
from laminar.store import runs
from laminar.store.manifest import BuildRecord
from laminar.store.own import is_own, note_own
from laminar.store.store import Store
from laminar.train import checkpoint
from laminar.train.features import KeptFeatures
from laminar.train.history import LISTEN_SECONDS
from laminar.train.job import Job, Trained
from laminar.train.loop import train
from laminar.train.strategies import AnyStrategy, Name, Solo, strategy


@dataclass(frozen=True)
class Outcome:
    id: str
    key: str
    metrics: dict[str, float]
    # seconds: on features of the frozen part, training, of that checkpoints, keeping the layer with its graph
    spent: dict[str, float]
    features: str
    notes: list[str] = field(default_factory=list)


CLUSTER: Final = ("L406", "L407", "L408")  # what is wrong with it, not with what is written
Train = Callable[[Job, Description, Emit], Trained]


def train_layer(
    file: StackFile,
    store: Store,
    step: Step,
    *,
    again: bool,
    ref: str | None,
    emit: Emit,
    clock: Clock,
    how: Train | None = None,
    like: str | None = None,
) -> Outcome:
    """`how`: trains the job; by itself this goes by the strategy of the recipe, on this machine. `again`: although it was built before.
    `like`: a layer whose graph may be this one's too.

    What its code looks at is part of the key, so the key stands fast when the factories have run and the model has taken a batch; the run
    is named by it. What only the training looked at is added in the end.
    """
    with undone():
        return _train_layer(file, store, step, again=again, ref=ref, emit=emit, clock=clock, how=how, like=like)


def _train_layer(
    file: StackFile,
    store: Store,
    step: Step,
    *,
    again: bool,
    ref: str | None,
    emit: Emit,
    clock: Clock,
    how: Train | None,
    like: str | None,
) -> Outcome:
    layer, spec = step.layer, file.spec.data[step.layer.data]
    assert step.key is not None and step.inputs is not None
    where = file.where_layer(layer.name)
    try:
        notes: list[str] = []
        data = open_data(spec, file.root, cache=fingerprint_folder(store), progress=_telling(layer.name, emit, clock), notes=notes)
        if fingerprint(spec, file.root, fingerprint_folder(store)) != step.inputs["data"]:
            raise LaminarError("L102", "it changed while it was being read", hint="laminar build again when it is at rest")
    except LaminarError as error:
        raise located(error, file.where("data", layer.data, "source"), f"data.{layer.data}") from error
    looking, asked = Looking(file.root), without_seen(step.inputs)
    remember_training_samples(step.inputs["data"], len(data.train), fingerprint_folder(store))
    made = make(file, store, layer, step.parent, data, looking)
    foreign = stands_on_foreign(store, step.parent, made, file.root, data, layer.train.batch)
    _same_code(step, made.steps)
    with looking:
        fitted = fit_model(file, layer, made, data)
    memory = seen_of(file, store)
    seen = _settled(looking, memory, {}, layer.name)
    memory.remember(key_of(asked), seen)
    key = key_of(with_seen(asked, seen))
    run = run_of(store, key, again=again)
    start = start_of(made.model, fitted.example)
    folder = runs.begin(store, run)
    with store.lease(runs=[run]) as lease:
        folder.mkdir(parents=True, exist_ok=True)
        runs.tell_about(folder, _about(file, step, key))
        with looking:
            prepared = prepare_job(file, store, layer, made, data, folder, emit=emit, clock=clock, fitted=fitted)
        job, kept, spent = prepared.job, prepared.kept, dict(prepared.spent)
        atomic.write_text(folder / ROUTE, "always" if isinstance(kept, KeptFeatures) else "never")
        if isinstance(kept, KeptFeatures):
            lease.add(features=kept.fkeys)
        try:
            features = kept.fkeys if isinstance(kept, KeptFeatures) else ()
            with looking:
                trained = (how or _train)(job, Description(file, store.root, layer.name, step.parent, run, features), emit)
        except LaminarError as error:
            if error.code in CLUSTER:  # no line of the stack file would be another on a cluster that works
                raise LaminarError(error.code, f"layer {layer.name}: {error.message}", hint=error.hint) from error
            raise located(error, where, f"layer {layer.name}") from error
        looking.seen_elsewhere(trained.looked)
        seen = _settled(looking, memory, seen, "")
        memory.remember(key_of(asked), seen)
        inputs = with_seen(asked, seen)
        key, before = key_of(inputs), None
        for own in made.steps[made.inherited :] if seen else ():
            own["seen"] = seen
        about = About(
            stack=file.spec.stack.name,
            name=layer.name,
            key=key,
            run=run,
            parent=step.parent,
            steps=made.steps,
            route=made.route,
            classes=list(data.classes) if data.classes is not None else None,
            task=data.task,
            input={"shape": list(data.sample_shape), "dtype": str(data.train.x.dtype), "scale": data.scale},
            where=trained.where,
        )
        began = clock.monotonic()
        manifest = keep(
            store,
            made.model,
            prepared.example,
            about,
            frozen=prepared.frozen,
            freeze=layer.freeze,
            metrics=trained.metrics,
            seconds=trained.seconds,
            now=clock.now(),
            notes=[*notes, *made.notes, *trained.notes, *unseen_notes(layer, looking.unseen)],
            earlier=_trusted(
                store, foreign, step.record.id if step.record else None, like, store.refs.get(ref) if ref else None, step.parent
            ),
        )
        before = known(store, key)
        spec_written, data_written = layer_as_written(file, layer.name), data_as_written(file, layer.data)
        record = BuildRecord(
            key=key,
            id=manifest.id,
            inputs=inputs,
            stack=file.spec.stack.name,
            name=layer.name,
            spec=spec_written,
            data=data_written,
            order={name: order for name, table in (("spec", spec_written), ("data", data_written)) if (order := order_of(table, top=True))},
            metrics=trained.metrics,
            seconds=trained.seconds,
            created=manifest.created,
            run=run,
            provenance=manifest.provenance
            | {
                "start": start,
                "strategy": _trained_by(layer.train.strategy),
                "parameters": sum(one.numel() for one in made.model.parameters()),
            },
        )
        if not foreign:
            note_own(store, manifest)  # first: a layer that is committed is not built again, and would stay foreign
        store.commit(manifest, record, ref, why="build")
        runs.finish(store, record)
        checkpoint.remove(folder)
        spent |= {"training": trained.seconds}
        if trained.checkpoint_seconds is not None:
            spent["checkpoints"] = trained.checkpoint_seconds
        spent["keeping"] = clock.monotonic() - began
    other = [] if before is None or before.id == manifest.id else [why_other(before, record)]
    whole = batch_note(layer, len(data.train))
    said = [*manifest.notes, *other, *([whole] if whole else [])]
    return Outcome(manifest.id, key, trained.metrics, spent, kept.summary(), said)


def _settled(looking: Looking, memory: Seen, known: dict[str, str], layer: str) -> dict[str, str]:
    """What the tags are like. Once a training is done, a file that changed meanwhile is no reason to throw it away: it matches nothing."""
    for _ in range(1000):
        try:
            return looking.settle(memory.digest_of, known)
        except ChangedMeanwhile as change:
            if layer:
                raise LaminarError(
                    "L202", f"layer {layer}: {change} changed while the layer's code read it", hint="laminar build again when it is at rest"
                ) from None
            known = known | dict.fromkeys((f"file:{change}", f"source:{change}"), "changed while it was read")
    raise AssertionError("more files change than are read")


def _trusted(store: Store, foreign: bool, *ids: str | None) -> list[str]:
    """Layers whose graph may be run here, and become that of a layer which is not foreign."""
    return [id for id in ids if id and store.has_layer(id) and (foreign or is_own(store, store.layer(id)))]


def _about(file: StackFile, step: Step, key: str) -> dict[str, Any]:
    """What a run under way is; the record of the build, which says it too, is written when it is done."""
    return {
        "stack": file.spec.stack.name,
        "layer": step.layer.name,
        "key": key,
        "parent": step.parent,
        "strategy": strategy(step.layer.train.strategy).kind,
        "spec": layer_as_written(file, step.layer.name),
    }


def _trained_by(chosen: Name | AnyStrategy | None) -> str:
    """`sync, 2 workers`: of a record, to explain why a layer with the same key is another one."""
    how = strategy(chosen)
    if isinstance(how, Solo):
        return "one process"
    return f"{how.kind}, {many(how.workers, 'worker')}"


def _train(job: Job, description: Description, emit: Emit) -> Trained:
    """By one process, or by the strategy of the recipe. The package that runs those stands above this one, so it is asked for by name."""
    if isinstance(strategy(job.recipe.strategy), Solo):
        return train(job, emit)
    run: Train = import_module("laminar.parallel.run").run
    return run(job, description, emit)


def _telling(layer: str, emit: Emit, clock: Clock) -> DataProgress:
    """What opening the data is busy with, to whoever listens, a few times a second."""
    last: dict[str, float] = {}

    def tell(what: str, done: int, total: int | None) -> None:
        now = clock.monotonic()
        if done == total or now - last.get(what, -math.inf) >= LISTEN_SECONDS:
            last[what] = now
            emit({"event": "data", "layer": layer, "what": what, "done": done, "of": total})

    return tell


def _same_code(step: Step, made: list[dict[str, Any]]) -> None:
    """What was executed is what the key speaks of: an editor may have saved a file in between."""
    assert step.inputs is not None
    keyed = [step.inputs["model"], *step.inputs["replace"].values()]
    codes = [entry["code"] for entry in made]
    for entry in keyed:
        if entry is not None and entry["code"] not in codes:
            raise LaminarError("L202", f"the source of {entry['factory']} changed while the build began", hint="laminar build again")
