"""Variants: the product of the axes, the description made of it, and the stack of each trial, in memory."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.core.nearest import did_you_mean
from laminar.experiments.axes import PLACE, path_of, plain_name, put, told
from laminar.experiments.differences import facts_of
from laminar.experiments.record import Axis, Description, Published, Variant
from laminar.experiments.results import Cell
from laminar.experiments.spec import AxisSpec, Budget, Sweep, checked
from laminar.experiments.whole_batches import without_twins
from laminar.launch.choose import launcher_of
from laminar.stack.key import code_of, inputs_of
from laminar.stack.parents import resolve
from laminar.stack.plan import fingerprint_folder
from laminar.stack.read import StackFile, bottom_up, from_raw, parent_of
from laminar.store.store import Store

MOST: Final = 10_000  # trials that are begun without being asked twice
ID: Final = 12  # digits
QUICK_SAMPLES: Final = 1_000
QUICK_REPEATS: Final = 4  # as few as can be held against a figure; three decide between two variants
QUICK_SECONDS: Final = 50.0  # of trials; the start of processes comes on top, and a minute is what is promised
QUICK: Final = "-quick"
WARM_UP_EPOCHS: Final = 1


def layer_of(sweep: Sweep, file: StackFile) -> str:
    known = [layer.name for layer in file.spec.layer]
    if sweep.layer is None:
        return known[-1]
    if sweep.layer not in known:
        raise LaminarError(
            "L006",
            f"the experiment is about the layer '{sweep.layer}', which is not in {file.path.name}; {did_you_mean(sweep.layer, known)}",
            hint="layer = " + " | ".join(f'"{name}"' for name in known),
        )
    return sweep.layer


def axes_of(sweep: Sweep, file: StackFile, layer: str) -> tuple[Axis, ...]:
    """L017 for a name that means nothing."""
    found = []
    for name, given in _given(sweep).items():
        spec = given if isinstance(given, AxisSpec) else AxisSpec(values=given)
        doubled = next((one for i, one in enumerate(spec.values) if one in spec.values[:i]), None)
        if doubled is not None:
            raise LaminarError("L016", f"axis '{name}' has the value {doubled!r} twice", hint="remove one of them")
        path = path_of(spec.path or name, file, layer)
        found.append(Axis(name=name, values=tuple(spec.values), path=path, unit=spec.unit))
    for together in [list(one.settings) for one in sweep.variant] or [[axis.name for axis in found]]:
        _check_places([axis for axis in found if axis.name in together])
    return tuple(found)


def _check_places(axes: Iterable[Axis]) -> None:
    """Of two names for one setting only the last would be heard, and variants would be called what they are not."""
    for one, other in itertools.combinations(axes, 2):
        if one.path == other.path and {plain_name(one.name), plain_name(other.name)} != {"neurons", "depth"}:
            raise LaminarError(
                "L016", f"axes '{one.name}' and '{other.name}' both set {one.path}", hint=f"keep one of them: {one.name}, or {other.name}"
            )


def _check_places_on(settings: Iterable[tuple[str, Any]]) -> None:
    """L016 or L008 for a place that is none, before anything is run elsewhere."""
    for name, value in settings:
        if name == PLACE:
            if not isinstance(value, str):
                raise LaminarError("L016", f"axis '{PLACE}' has the value {value!r}, but must be text", hint='on = ["local", "ray"]')
            launcher_of(value)


def _given(sweep: Sweep) -> Mapping[str, list[Any] | AxisSpec]:
    """The axes as written, or the names and values that single variants have."""
    if sweep.search is not None:
        return {name: AxisSpec(values=list(one.choices or ())) for name, one in sweep.search.ranges.items()}
    if not sweep.variant:
        return sweep.axes
    found: dict[str, list[Any] | AxisSpec] = {}
    for variant in sweep.variant:
        for name, value in variant.settings.items():
            values = found.setdefault(name, [])
            if isinstance(values, list) and value not in values:
                values.append(value)
    return found


def variant_of(settings: Mapping[str, Any], label: str = "", line: str = "") -> Variant:
    return Variant(
        id=digest.of_json(msgspec.to_builtins(dict(settings)))[:ID],
        label=label or ", ".join(told(name, value) for name, value in settings.items()) or "as it stands",
        settings=dict(settings),
        line=line,
    )


def variants_of(sweep: Sweep, axes: Iterable[Axis]) -> list[Variant]:
    if sweep.search is not None:
        return [variant_of({})]  # what it finds is held against the stack as it stands
    if sweep.variant:
        return [variant_of(one.settings, one.label, one.line) for one in sweep.variant]
    axes = list(axes)
    products = itertools.product(*(axis.values for axis in axes))
    return [variant_of(dict(zip((axis.name for axis in axes), values, strict=True))) for values in products]


def count(sweep: Sweep) -> int:
    """Trials that are to be counted, before any variant is made: a product may be too large to be made at all."""
    if sweep.search is not None:
        return (sweep.search.trials + 1) * sweep.repeats
    if sweep.variant:
        return len(sweep.variant) * sweep.repeats
    return math.prod(len(given.values if isinstance(given, AxisSpec) else given) for given in sweep.axes.values()) * sweep.repeats


def describe(
    sweep: Sweep,
    file: StackFile,
    store: Store,
    *,
    yes: bool = False,
    now: float = 0.0,
    machine: Mapping[str, Any] | None = None,
    notes: Iterable[str] = (),
    quick: bool = False,
) -> Description:
    """What is asked, with every variant checked as a stack file is. L019 when that is nothing, or more than 10,000 trials without `yes`."""
    sweep = checked(sweep)
    trials = count(sweep)
    if not trials:
        empty = next(name for name, given in sweep.axes.items() if not (given.values if isinstance(given, AxisSpec) else given))
        raise LaminarError("L019", f"axis '{empty}' has no values, so there is no variant at all", hint=f"{empty} = [32, 64]")
    if trials > MOST and not yes:
        raise LaminarError(
            "L019", f"that is {trials:,} trials, and more than {MOST:,} are not begun unasked", hint="fewer values or repeats, or --yes"
        )
    layer = layer_of(sweep, file)
    axes = axes_of(sweep, file, layer)
    for name in sweep.set:
        path = path_of(name, file, layer)
        if axis := next((one for one in axes if sweep.axes and one.path == path and plain_name(one.name) == plain_name(name)), None):
            raise LaminarError(
                "L016", f"set and axes both say '{axis.name}', and only the axis would be heard", hint=f"remove {name} from one of them"
            )
    _check_places_on([*sweep.set.items(), *((axis.name, value) for axis in axes for value in axis.values)])
    variants = variants_of(sweep, axes)
    by_id: dict[str, Variant] = {}
    for variant in variants:
        if variant.id in by_id:
            raise LaminarError("L016", f"the variant '{variant.label}' is there twice", hint="remove one of them")
        by_id[variant.id] = variant
    described = Description(
        name=sweep.name,
        title=sweep.title or sweep.name,
        question=sweep.question,
        stack=file.spec.stack.name,
        layer=layer,
        axes=axes,
        variants=tuple(variants),
        benchmark=_benchmark(sweep, axes, variants),
        measures=tuple(sweep.measures),
        repeats=sweep.repeats,
        warm_up=sweep.warm_ups,
        timed=sweep.is_timed,
        target=sweep.target,
        quick=quick,
        published=tuple(published_figures(sweep, by_id)),
        statements=tuple(sweep.statement),
        machine=dict(machine or {}),
        created=now,
        notes=tuple(notes),
    )
    stacks = {variant.id: apply(file, described, variant, 0, sweep.set) for variant in variants}
    inputs, facts = inputs_of_variants(described, sweep, stacks, store)
    return without_twins(msgspec.structs.replace(described, inputs=inputs, facts=facts), stacks, store)


def _benchmark(sweep: Sweep, axes: Iterable[Axis], variants: list[Variant]) -> str:
    if sweep.search is not None or (sweep.variant and not sweep.benchmark):
        return variants[0].id
    known = {axis.name: axis for axis in axes}
    for name, value in sweep.benchmark.items():
        if name not in known:
            raise LaminarError(
                "L016", f"benchmark: '{name}' is none of the axes; {did_you_mean(name, known)}", hint="name axes and values that vary"
            )
        if value not in known[name].values:
            raise LaminarError(
                "L016",
                f"benchmark: {name} = {value!r} is none of the values {list(known[name].values)}",
                hint=f"benchmark = {{ {name} = {known[name].values[0]!r} }}",
            )
    fits = [one for one in variants if all(one.settings.get(name) == value for name, value in sweep.benchmark.items())]
    if not fits:
        raise LaminarError("L016", f"benchmark: no variant has {dict(sweep.benchmark)}", hint="name the settings of one that is there")
    return fits[0].id  # the product has the first values first


def published_figures(sweep: Sweep, variants: Mapping[str, Variant]) -> Iterable[Published]:
    for one in sweep.published:
        fits = [id for id, variant in variants.items() if variant.settings == one.settings]  # not others that have more
        fits = fits or [id for id, variant in variants.items() if all(variant.settings.get(k) == v for k, v in one.settings.items())]
        if len(fits) != 1:
            raise LaminarError(
                "L016",
                f"published: {len(fits)} variants have {dict(one.settings)}, but the figure must be of one",
                hint="name the value of every axis",
            )
        yield Published(variant=fits[0], measure=one.measure, value=one.value, percent=one.percent, source=one.source)


def apply(
    file: StackFile,
    description: Description,
    variant: Variant,
    repeat: int,
    fixed: Mapping[str, Any] | None = None,
    *,
    warm_up: bool = False,
) -> StackFile:
    """The stack of one trial. Each repeat has a seed of its own, so that it is a layer of its own; repeat 0 has that of the recipe.

    `fixed` is set for every variant. A warm-up trains one epoch with a seed that no counted trial has.
    """
    layer = description.layer
    _check_workers(variant)
    settings = {**(fixed or {}), **variant.settings}
    paths = {name: path_of(name, file, layer) for name in fixed or {}} | {axis.name: axis.path for axis in description.axes}
    raw = put(file.raw, layer, settings, paths)
    train = next(one for one in raw["layer"] if one["name"] == layer)["train"]
    if isinstance(train, dict):
        seed = train.get("seed", 0)
        if isinstance(seed, int):
            train["seed"] = seed + _stride(description) * (repeat + (description.repeats if warm_up else 0))
        if warm_up:
            train["epochs"] = WARM_UP_EPOCHS
    try:
        return from_raw(raw, file.text, file.path)
    except LaminarError as error:
        raise LaminarError(error.code, f"variant '{variant.label}': {error.message}", hint=error.hint) from None


def _check_workers(variant: Variant) -> None:
    """Workers of a stack without a strategy are `sync`; where a variant says solo itself, it would be called what it is not."""
    named = {plain_name(name): value for name, value in variant.settings.items()}
    strategy, workers = named.get("strategy"), named.get("workers", 1)
    if workers != 1 and (strategy.get("kind") if isinstance(strategy, dict) else strategy) == "solo":
        raise LaminarError(
            "L016",
            f"variant '{variant.label}': solo is one process, but workers is {workers}",
            hint="leave the axis strategy out: 1 worker is one process, more are sync; or list variants: [[variant]] settings = { … }",
        )


def _stride(description: Description) -> int:
    """Where the seed itself varies, repeats of one value must not be those of another."""
    seeds = [axis.values for axis in description.axes if plain_name(axis.name) == "seed" or axis.path.endswith(".train.seed")]
    numbers = [value for values in seeds for value in values if isinstance(value, int)]
    return max(numbers) - min(numbers) + 1 if numbers else 1


def inputs_of_variants(
    description: Description, sweep: Sweep, stacks: Mapping[str, StackFile], store: Store
) -> tuple[dict[str, str], dict[str, dict[str, Cell]]]:
    """All that determines what each variant learns, whether it is built already or not, and the facts of how it is trained. Every mistake
    of a variant is seen here. `stacks`: by id."""
    folder, code = fingerprint_folder(store), functools.cache(code_of)  # sources are read once for all
    found, facts = {}, {}
    for variant in description.variants:
        stack = stacks[variant.id]
        below = []
        for layer in bottom_up(stack, [description.layer]):
            parent = parent_of(stack.spec, layer)
            outside = parent is not None and all(other.name != parent for other in stack.spec.layer)
            below.append(inputs_of(stack, layer, resolve(stack, store, layer, parent) if outside else None, folder, code=code))
        found[variant.id] = digest.of_json(below)
        layer = next(one for one in stack.spec.layer if one.name == description.layer)
        facts[variant.id] = facts_of(layer.train, place_of(variant, sweep), cores=int(description.machine.get("cores", 0)))
    return found, facts


def place_of(variant: Variant, sweep: Sweep) -> str | None:
    """Where its workers run, as far as the sweep says it."""
    place: str | None = variant.settings.get(PLACE, sweep.set.get(PLACE))
    return place


def quicker(sweep: Sweep, file: StackFile, *, fill: bool = False) -> tuple[Sweep, StackFile, list[str]]:
    """The same question in a minute: fewer samples of every data set that can be limited, fewer repeats, no warm-up. And what was done.

    `fill`: repeats go on until the minute is over (run.py); those that the sweep has are the least.
    """
    raw = msgspec.to_builtins(file.raw)
    notes = []
    layer = layer_of(sweep, file)
    said = next(one.data for one in file.spec.layer if one.name == layer) if "samples" in map(plain_name, sweep.set) else None
    for name, table in raw.get("data", {}).items():
        spec = file.spec.data[name]
        if spec.fragment is None and spec.sample is None and name != said and (spec.limit is None or spec.limit > QUICK_SAMPLES):
            table["limit"] = QUICK_SAMPLES
            notes.append(f"data.{name} is limited to {QUICK_SAMPLES:,} training samples")
    repeats = QUICK_REPEATS if fill else min(sweep.repeats, QUICK_REPEATS)
    if fill:
        notes.append(f"as many repeats as fit into {QUICK_SECONDS:.0f} seconds, after one warm-up")
    else:
        fewer = f"{many(repeats, 'repeat')} instead of {sweep.repeats}, " if repeats < sweep.repeats else ""
        notes.append(f"{fewer}no warm-up, and {QUICK_SECONDS:.0f} seconds at most")
    hours = min(sweep.budget.hours or math.inf, QUICK_SECONDS / 3600)
    quick = msgspec.structs.replace(
        sweep,
        name=sweep.name.removesuffix(QUICK) + QUICK,
        repeats=repeats,
        warm_up=1 if fill and sweep.is_timed else 0,
        even_if_busy=True,
        budget=Budget(hours=hours, trials=sweep.budget.trials),
    )
    return quick, from_raw(raw, file.text, Path(file.path)), notes
