"""Differences: what else differs between variants than what was asked about. Pure.

A study of two machines wished for more controlled variables. Here every table says which facts of the training differ between its variants
(processes, threads, place, samples a step, rate …), and a note warns where a variant differs from the benchmark in more than one thing:
what it shows may come from any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from laminar.experiments.axes import plain_name
from laminar.experiments.record import Description, Variant
from laminar.experiments.results import Cell, Extra
from laminar.parallel.threads import threads_each
from laminar.train.recipe import Recipe
from laminar.train.splitting import SplitStrategy
from laminar.train.strategies import Downpour, ManySpec, strategy

PROCESSES, THREADS, KIND, WHERE = "processes", "threads in all", "strategy", "where"
# axis, in plain words: the facts that are what it says
SAYS: Final[dict[str, tuple[str, ...]]] = {
    "workers": (PROCESSES, KIND, THREADS),
    "strategy": (PROCESSES, KIND, THREADS),
    "threads": (THREADS,),
    "on": (WHERE,),
    "batch": ("samples a step",),
    "accumulate": ("samples a step",),
    "lr": ("rate",),
    "optimizer": ("optimizer",),
    "momentum": ("optimizer",),  # its other settings belong to it
    "schedule": ("schedule",),
    "epochs": ("epochs",),
    "dtype": ("dtype",),
    "checkpoint_seconds": ("checkpoints",),
    "checkpoint_steps": ("checkpoints",),
    "checkpoint_write_seconds": ("checkpoints",),
}
NAMED: Final = 4  # variants in the note


def facts_of(recipe: Recipe, on: str | None, *, cores: int) -> dict[str, Cell]:
    """How a variant is trained. `cores`: of this machine, whose threads are shared out where nothing is said; 0: not known."""
    how = strategy(recipe.strategy)
    workers = how.workers if isinstance(how, ManySpec | SplitStrategy) else 1
    servers = how.shards if isinstance(how, Downpour) else 0
    threads = workers * threads_each(recipe.threads, workers, cores or None)
    here = on in (None, "local")
    return {
        WHERE: on or "local",
        KIND: how.kind,
        PROCESSES: workers + servers,
        THREADS: threads if here or recipe.threads else "as its machines have cores",
        "samples a step": recipe.step_batch,
        "rate": recipe.rate,
        "optimizer": recipe.optimizer,
        "schedule": recipe.plan.__struct_config__.tag,
        "epochs": recipe.epochs,
        "dtype": recipe.dtype,
        "checkpoints": _checkpoints(recipe),
    }


def _checkpoints(recipe: Recipe) -> str:
    often = [f"every {recipe.checkpoint_seconds:g} s"] if recipe.checkpoint_seconds < 1e6 else []
    often += [f"every {recipe.checkpoint_steps:,} steps"] if recipe.checkpoint_steps else []
    slow = f", {recipe.checkpoint_write_seconds:g} s or more each" if recipe.checkpoint_write_seconds else ""
    return (" and ".join(often) or "none") + slow


def differences(description: Description, variants: Sequence[Variant]) -> Extra | None:
    """The facts that are not the same for all variants. None where axes say all of them by themselves, and for listed variants where it is
    one: of several, a list does not say which go together."""
    known = [one for one in variants if one.id in description.facts]
    listed = dict.fromkeys(name for facts in description.facts.values() for name in facts)
    names = [name for name in listed if len({repr(description.facts[one.id].get(name)) for one in known}) > 1]
    said = {fact for axis in description.axes for fact in SAYS.get(plain_name(axis.name), ())}
    if all(name in said for name in names) and (len(names) < 2 or _is_product(description, variants)):
        return None
    columns = ("variant", *names)
    rows = tuple(dict(zip(columns, (one.label, *(description.facts[one.id].get(name) for name in names)), strict=True)) for one in known)
    return Extra(name="differences", title="How the trainings of variants differ", columns=columns, rows=rows)


def difference_words(description: Description, variants: Sequence[Variant]) -> Iterator[str]:
    """A warning where variants differ from the benchmark in more than one thing. Points of a product differ along its axes, which is what
    was asked; of them only what no axis says is told."""
    base = next((one for one in variants if one.id == description.benchmark), None)
    if base is None or base.id not in description.facts:
        return
    product = _is_product(description, variants)
    found: list[tuple[str, list[str]]] = []
    for one in variants:
        if one.id != base.id and one.id in description.facts:
            things = _things(description, one, base)
            unsaid = [thing for thing in things if thing not in _axes_apart(one, base)] if product else things
            if unsaid and (product or len(things) > 1):
                found.append((one.label, unsaid))
    if found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        told = "; ".join(f"{label} ({', '.join(things)})" for label, things in found[:NAMED])
        what = "in what no axis says" if product else "in more than one thing"
        yield f"warning: variants differ from the benchmark {what}: {told}{more}: what they show may come from any of it"


def _things(description: Description, one: Variant, base: Variant) -> list[str]:
    """In which two variants differ: axes, each with the facts that are what it says; and facts that no axis says."""
    axes = _axes_apart(one, base)
    covered = {fact for axis in axes for fact in SAYS.get(axis, ())}
    facts, others = description.facts[one.id], description.facts[base.id]
    apart = [name for name in facts if facts[name] != others.get(name) and name not in covered]
    groups: dict[tuple[str, ...], str] = {}
    for axis in axes:  # several that say the same thing are one
        groups.setdefault(SAYS.get(axis, (axis,))[:1], axis)
    return [*groups.values(), *apart]


def _axes_apart(one: Variant, other: Variant) -> list[str]:
    names = dict.fromkeys([*one.settings, *other.settings])
    return [plain_name(name) for name in names if one.settings.get(name) != other.settings.get(name)]


def _is_product(description: Description, variants: Sequence[Variant]) -> bool:
    """All combinations of the axes' values, or proposals of a search: what `axes` means."""
    count = 1
    for axis in description.axes:
        count *= max(1, len(axis.values))
    return len({repr(sorted(one.settings)) for one in variants}) == 1 and count == len(description.variants)
