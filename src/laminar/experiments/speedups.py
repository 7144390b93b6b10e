"""Speed-ups: how many times as many samples a second a variant trains on as the same with fewer workers. Pure.

    speedup = samples per second / those of the base (their median)       efficiency = speedup x cores of the base / own cores

The base is the variant with the fewest cores among those that differ in nothing but workers, threads and the strategy: each batch has a
base of its own. A variant that no other is like so is held against the benchmark. Cores are workers times the threads that are set.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from laminar.experiments.axes import plain_name
from laminar.experiments.measures import AGAINST_OTHERS
from laminar.experiments.record import Description, Trial, Variant

WAYS: Final = ("workers", "threads", "strategy", "compress")  # of settings: how the work is shared out
RATE: Final = "samples_per_second"


def with_speedups(description: Description, variants: Sequence[Variant], trials: Sequence[Trial]) -> Sequence[Trial]:
    """The same trials, with what is known of them against others, where anybody asks for it."""
    if not set(AGAINST_OTHERS) & set(description.measures):
        return trials
    rates: dict[str, list[float]] = {}
    cores: dict[str, int] = {}
    by_id = {one.id: one for one in variants}
    for one in trials:
        if one.variant in by_id and one.outcome == "done":
            cores.setdefault(one.variant, _cores(by_id[one.variant], one))
            if one.counted and RATE in one.metrics:
                rates.setdefault(one.variant, []).append(one.metrics[RATE])
    bases = _bases(description, [one for one in variants if one.id in cores], cores)
    return [_against(one, bases.get(one.variant), rates, cores) for one in trials]


def _against(trial: Trial, base: str | None, rates: Mapping[str, list[float]], cores: Mapping[str, int]) -> Trial:
    if base is None or base not in rates or RATE not in trial.metrics or trial.variant not in cores:
        return trial
    speedup = trial.metrics[RATE] / statistics.median(rates[base])
    return msgspec.structs.replace(
        trial, metrics={**trial.metrics, "speedup": speedup, "efficiency": speedup * cores[base] / cores[trial.variant]}
    )


def _bases(description: Description, variants: Sequence[Variant], cores: Mapping[str, int]) -> dict[str, str]:
    """Variant: the one that it is held against."""
    alike: dict[str, list[Variant]] = {}
    for one in variants:
        alike.setdefault(repr(_but_ways(one.settings)), []).append(one)
    found: dict[str, str] = {}
    for some in alike.values():
        first = min(some, key=lambda one: (cores[one.id], one.id != description.benchmark))
        alone = len(some) == 1
        found |= {one.id: description.benchmark if alone else first.id for one in some}
    return found


def _but_ways(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted((name, value) for name, value in settings.items() if plain_name(name) not in WAYS)


def _cores(variant: Variant, trial: Trial) -> int:
    """Processes that shared the training, times the threads that were set for each."""
    threads = next((value for name, value in variant.settings.items() if plain_name(name) == "threads"), 1)
    workers = trial.team.get("wanted", trial.team.get("workers", 1))
    return max(1, int(workers or 1)) * (threads if isinstance(threads, int) else 1)
