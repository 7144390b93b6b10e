"""Search: variants proposed by Optuna, each by what is known of those before. TPE: Bergstra et al., NIPS 2011."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import msgspec

from laminar.core.errors import LaminarError
from laminar.experiments.measures import measure_of
from laminar.experiments.order import Next, left, standing
from laminar.experiments.record import Description, Trial, Variant
from laminar.experiments.spec import Range, Search, Sweep, goal_of
from laminar.experiments.variants import variant_of

TRIES: Final = 50  # proposals that were known already, before the search is over


def need_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise LaminarError(
            "L011", "searching in ranges needs Optuna, which is not installed", hint="pip install 'laminar-train[search]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@final
class Proposals:
    """The stack as it stands first, then what is proposed, every one with all its repeats.

    `at_once`: trials side by side. So many are proposed ahead, by what is known then: nobody waits for another to end.
    """

    def __init__(self, description: Description, sweep: Sweep, trials: Sequence[Trial], at_once: int = 1) -> None:
        assert sweep.search is not None
        self._optuna = need_optuna()
        self._description, self._search, self._seed = description, sweep.search, sweep.order_seed
        self._trials, self._at_once = list(trials), max(1, at_once)
        self._variants = {one.id: one for one in description.variants}
        for one in trials:  # those that were proposed in other ranges are kept, and no part of this search
            if one.settings and _is_of(self._search, one.settings):
                self._variants.setdefault(one.variant, variant_of(one.settings))
        direction = "maximize" if goal_of(self._search.measure, self._search.goal) == "most" else "minimize"
        told = self._told()
        sampler = self._optuna.samplers.TPESampler(seed=self._search.seed + len(told))
        self._study = self._optuna.create_study(direction=direction, sampler=sampler)
        self._distributions = {name: self._distribution(one) for name, one in self._search.ranges.items()}
        self._choices = {name: one.choices for name, one in self._search.ranges.items() if one.choices is not None}
        self._known: set[str] = set()
        self._over = False
        self._tell_known()

    def left(self) -> list[Next]:
        """What was proposed and is not done; when that is too little for all who train, one more proposal."""
        ahead = self._ahead()
        while len(ahead) < self._at_once and self._unproposed():
            self._propose()
            ahead = self._ahead()
        return ahead

    def later(self) -> int:
        return self._unproposed() * self._description.repeats

    def _unproposed(self) -> int:
        return 0 if self._over else max(0, self._search.trials - (len(self._variants) - len(self._description.variants)))

    def _ahead(self) -> list[Next]:
        return left(msgspec.structs.replace(self._description, variants=tuple(self._variants.values())), self._trials, self._seed)

    def _propose(self) -> None:
        for _ in range(TRIES):
            trial = self._study.ask(self._distributions)
            settings = {name: self._choices[name][value] if name in self._choices else value for name, value in trial.params.items()}
            variant = variant_of(settings)
            if variant.id not in self._variants:
                self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)  # what came of it is added when all its repeats are done
                self._variants[variant.id] = variant
                return
        self._over = True

    def add(self, trial: Trial) -> None:
        self._trials.append(trial)
        self._tell_known()

    def _told(self) -> dict[str, float | None]:
        """Variants of which all repeats are done, and the median of what is sought; None where it failed."""
        known = standing(self._trials)
        found: dict[str, float | None] = {}
        for id, variant in self._variants.items():
            mine = [known[id, repeat] for repeat in range(self._description.repeats) if (id, repeat) in known]
            if variant.settings and len(mine) == self._description.repeats:
                values = [
                    x
                    for t in mine
                    if t.outcome == "done" and (x := measure_of(t, self._search.measure, self._description.target)) is not None
                ]
                found[id] = statistics.median(values) if values else None
        return found

    def _tell_known(self) -> None:
        for id, value in self._told().items():
            if id in self._known:
                continue
            self._known.add(id)
            params = {
                name: self._choices[name].index(given) if name in self._choices else given
                for name, given in self._variants[id].settings.items()
            }
            state = self._optuna.trial.TrialState.COMPLETE if value is not None else self._optuna.trial.TrialState.FAIL
            made = self._optuna.trial.create_trial(params=params, distributions=self._distributions, value=value, state=state)
            self._study.add_trial(made)

    def _distribution(self, one: Range) -> Any:
        kinds = self._optuna.distributions
        if one.choices is not None:
            return kinds.CategoricalDistribution(range(len(one.choices)))  # by number: a choice may be a table
        assert one.low is not None and one.high is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the last step may end below high, as the reference says
            if one.is_whole:
                return kinds.IntDistribution(one.low, one.high, log=one.log, step=one.step or 1)
            return kinds.FloatDistribution(float(one.low), float(one.high), log=one.log, step=one.step)

    def done(self) -> int:
        return sum(1 for variant, _ in standing(self._trials) if variant in self._variants)

    def variant(self, id: str) -> Variant:
        return self._variants[id]


def _is_of(search: Search, settings: Mapping[str, Any]) -> bool:
    return settings.keys() == search.ranges.keys() and all(one.holds(settings[name]) for name, one in search.ranges.items())
