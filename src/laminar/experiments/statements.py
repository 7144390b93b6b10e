"""Statements: sentences that an experiment is to confirm or refute, and the rules that judge them. Pure.

    Statement(text="two workers are slower than one", rule="more_than",
              arguments={"variant": {"workers": 2}, "measure": "seconds"})

"confirmed" and "refuted" need a difference outside the noise (intervals.py); everything else is "not shown". A rule is a function in
RULES; `variant` and `than` name variants by some of their settings, and the benchmark is meant where `than` is left out.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from laminar.core.figures import many, number
from laminar.experiments.extras import line_of
from laminar.experiments.intervals import ENOUGH, compare, of_median, ratio
from laminar.experiments.measures import TO_TARGET, measure_of
from laminar.experiments.record import Description, Statement, Trial, Variant
from laminar.experiments.results import Judged
from laminar.experiments.statement_arguments import wrong_with

Outcome = Literal["confirmed", "refuted", "not shown"]


@dataclass(frozen=True)
class Evidence:
    """What rules judge by: the counted trials of every variant."""

    description: Description
    variants: tuple[Variant, ...]
    trials: Mapping[str, tuple[Trial, ...]]

    def values(self, variant: Variant, measure: str) -> list[float]:
        known = (measure_of(one, measure, self.description.target) for one in self.trials.get(variant.id, ()))
        return [value for value in known if value is not None]

    def never(self, variant: Variant, measure: str) -> list[float]:
        """Of trials that did not reach the target: how far they were trained without it. It would have taken them more than that."""
        if measure not in TO_TARGET:
            return []
        done = [one for one in self.trials.get(variant.id, ()) if one.curve]
        last = [one.curve[-1] for one in done if measure_of(one, measure, self.description.target) is None]
        return [float(getattr(one, TO_TARGET[measure])) for one in last]

    def having(self, settings: Mapping[str, Any] | None) -> list[Variant]:
        """Variants with these settings; all without any."""
        return [one for one in self.variants if all(one.settings.get(name) == value for name, value in (settings or {}).items())]

    def one(self, settings: Mapping[str, Any] | None) -> Variant | None:
        """The benchmark where nothing is said; None where no variant fits."""
        if settings is None:
            return next((one for one in self.variants if one.id == self.description.benchmark), None)
        having = self.having(settings)
        return next((one for one in having if one.settings == settings), next(iter(having), None))  # before others that have more


def compared_first(description: Description, *, in_turn: bool = False) -> list[str]:
    """The variants that the first statement is about, which is that about the main question. Empty where there is none.

    `in_turn`: variants stand on those that are listed before them, so these belong to it.
    """
    if not description.statements:
        return []
    given, evidence = description.statements[0].arguments, Evidence(description, description.variants, {})
    if description.statements[0].rule in ("at_least", "at_most"):
        about = evidence.having(given.get("variant"))
    else:
        about = [one for one in (evidence.one(given.get("variant")), evidence.one(given.get("than"))) if one is not None]
    listed, wanted = [one.id for one in description.variants], {one.id for one in about}
    if in_turn and wanted:
        return listed[: 1 + max(listed.index(id) for id in wanted)]
    return [id for id in listed if id in wanted]


Rule = Callable[[Evidence, Mapping[str, Any]], tuple[Outcome, str, dict[str, float]]]


def judge(statement: Statement, evidence: Evidence) -> Judged:
    """Unknown rules, measures and variants give "not shown", and say why: a report is made of what there is."""
    if said := wrong_with(statement):
        return Judged(text=statement.text, verdict="not shown", words=said[0], claim=statement.claim)
    verdict, words, numbers = RULES[statement.rule](evidence, statement.arguments)
    return Judged(text=statement.text, verdict=verdict, words=words, numbers=numbers, claim=statement.claim)


def _more_or_less(wanted: Literal["more", "less"]) -> Rule:
    def rule(evidence: Evidence, given: Mapping[str, Any]) -> tuple[Outcome, str, dict[str, float]]:
        measure = given.get("measure", "seconds")
        one, other = evidence.one(given["variant"]), evidence.one(given.get("than"))
        if one is None or other is None:
            return "not shown", "no such variant was run", {}
        values, base = evidence.values(one, measure), evidence.values(other, measure)
        late, later = evidence.never(one, measure), evidence.never(other, measure)
        beyond = 2 * max((*values, *base), default=1.0)  # ranks are compared: any figure above all others says "more than that"
        found = compare([*values, *len(late) * [beyond]], [*base, *len(later) * [beyond]])
        if min(late, default=beyond) < max(base, default=0.0) or min(later, default=beyond) < max(values, default=0.0):
            found = "too few repeats"  # who gave up before the other was there might have been faster
        words, numbers = _held_against(one, values, other, base, measure)
        for variant, missed, reached in ((one, late, values), (other, later, base)):
            words += f"; {variant.label}: not reached by {len(missed)} of {many(len(missed) + len(reached), 'trial')}" if missed else ""
        if found == wanted:
            return "confirmed", words, numbers
        if found in ("more", "less"):
            return "refuted", words, numbers
        return "not shown", f"{words}: {found}" if values and base else words, numbers

    return rule


def _held_against(one: Variant, values: list[float], other: Variant, base: list[float], measure: str) -> tuple[str, dict[str, float]]:
    """`2 workers: seconds 12.1, 110 % (104 to 117) of 1 worker`."""
    if not values or not base:
        missing = one if not values else other
        return f"{measure} is not known of {missing.label}", {}
    median, benchmark = statistics.median(values), statistics.median(base)
    numbers = {"value": median, "than": benchmark}
    times = ratio(values, base)
    if times is None:
        return f"{one.label}: {measure} {number(median)}, {other.label}: {number(benchmark)}", numbers
    numbers["percent"] = 100 * times[0]
    between = f" ({100 * times[1].low:.1f} to {100 * times[1].high:.1f} at {times[1].level:.0%})" if times[1] is not None else ""
    return f"{one.label}: {measure} {number(median)}, {100 * times[0]:.1f} %{between} of {other.label}", numbers


def _monotone(evidence: Evidence, given: Mapping[str, Any]) -> tuple[Outcome, str, dict[str, float]]:
    """`measure` rises (or falls) along `axis`: every step goes that way, and the ends differ by more than noise."""
    axis, measure, direction = given["axis"], given.get("measure", "seconds"), given.get("direction", "rising")
    some = [one for one in evidence.having(given.get("where")) if axis in one.settings and evidence.values(one, measure)]
    written = next((a.values for a in evidence.description.axes if a.name == axis), ())
    some.sort(key=lambda one: _place(one.settings[axis], written))
    lines = [line for line in _lines(evidence, some, axis) if len(line) > 1]
    if not lines:
        return "not shown", f"{measure} is known of fewer than two values of {axis}", {}
    wanted: Literal["more", "less"] = "more" if direction == "rising" else "less"
    found = [_along([evidence.values(one, measure) for one in line], wanted) for line in lines]
    numbers = {one.label: statistics.median(evidence.values(one, measure)) for line in lines for one in line}
    words = "; ".join(", ".join(f"{one.label} {number(numbers[one.label])}" for one in line) for line in lines)
    verdict: Outcome = "refuted" if "refuted" in found else "not shown" if "not shown" in found else "confirmed"
    return verdict, f"{measure}: {words}", numbers


def _lines(evidence: Evidence, some: Sequence[Variant], axis: str) -> list[list[Variant]]:
    """One line, unless variants share a value of the axis: then those belong together that differ along it alone."""
    values = [one.settings[axis] for one in some]
    if all(value not in values[:i] for i, value in enumerate(values)):
        return [list(some)]
    found: dict[str, list[Variant]] = {}
    for one in some:
        found.setdefault(line_of(one, evidence.description.axes, axis), []).append(one)
    return list(found.values())


def _along(values: Sequence[list[float]], wanted: Literal["more", "less"]) -> Outcome:
    other: Literal["more", "less"] = "less" if wanted == "more" else "more"
    medians = [statistics.median(one) for one in values]
    steps = [compare(after, before) for before, after in itertools.pairwise(values)]
    ends = compare(values[-1], values[0])
    signs = [after > before if wanted == "more" else after < before for before, after in itertools.pairwise(medians)]
    if other in steps or ends == other:
        return "refuted"
    return "confirmed" if all(signs) and ends == wanted else "not shown"


def _place(value: Any, written: Sequence[Any]) -> tuple[int, float]:
    """Numbers by their size, other values (names, lists, tables) as they were written."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0, float(value)
    return 1, float(written.index(value) if value in written else 0)


def _bound(wanted: Literal["at least", "at most"]) -> Rule:
    """The median is beyond `value`, interval and all, for every variant that has the settings."""

    def rule(evidence: Evidence, given: Mapping[str, Any]) -> tuple[Outcome, str, dict[str, float]]:
        measure, value = given["measure"], float(given["value"])
        said, verdicts, numbers = [], list[Outcome](), {}
        for one in evidence.having(given.get("variant")):
            values = evidence.values(one, measure)
            if not values:
                continue
            median, interval = statistics.median(values), of_median(values)
            good = median >= value if wanted == "at least" else median <= value
            # all of the interval on one side; that the median is not on the other is surer than that it is in the interval
            beyond = interval is not None and (interval.low >= value or interval.high <= value)
            few = interval is None or (1 + interval.level) / 2 < ENOUGH
            verdicts.append("not shown" if few or not beyond else "confirmed" if good else "refuted")
            reached = sum(x >= value if wanted == "at least" else x <= value for x in values)
            spread = f" ({number(interval.low)} to {number(interval.high)} at {interval.level:.0%})" if interval else ""
            said.append(
                f"{one.label}: median {measure} {number(median)}{spread}, {reached} of {many(len(values), 'trial')}"
                + (": too few repeats" if few else "")
            )
            numbers[one.label] = median
        if not verdicts:
            return "not shown", f"{measure} is not known of any such variant", {}
        found: Outcome = "refuted" if "refuted" in verdicts else "not shown" if "not shown" in verdicts else "confirmed"
        return found, f"{'; '.join(said)}; {wanted} {number(value)} was said", numbers

    return rule


def _within(evidence: Evidence, given: Mapping[str, Any]) -> tuple[Outcome, str, dict[str, float]]:
    """In per cent of `than`, the measure lies between `low` and `high` (or beyond the one that is given): confirmed if its whole interval
    does, refuted if none does."""
    measure, low, high = given.get("measure", "seconds"), float(given.get("low", 0.0)), float(given.get("high", math.inf))
    one, other = evidence.one(given["variant"]), evidence.one(given.get("than"))
    if one is None or other is None:
        return "not shown", "no such variant was run", {}
    values, base = evidence.values(one, measure), evidence.values(other, measure)
    words, numbers = _held_against(one, values, other, base, measure)
    said = f"{low:g} to {high:g} %" if low > 0 and high < math.inf else f"at least {low:g} %" if low > 0 else f"at most {high:g} %"
    words += f"; {said} was said"
    times = ratio(values, base)
    if times is None or times[1] is None or times[1].level < ENOUGH - 1e-9:
        return "not shown", words + ": too few repeats", numbers
    interval = 100 * times[1].low, 100 * times[1].high
    if low <= interval[0] and interval[1] <= high:
        return "confirmed", words, numbers
    return ("refuted" if interval[1] < low or interval[0] > high else "not shown"), words, numbers


RULES: Final[dict[str, Rule]] = {
    "monotone": _monotone,
    "more_than": _more_or_less("more"),
    "less_than": _more_or_less("less"),
    "slower_than": _more_or_less("more"),
    "faster_than": _more_or_less("less"),
    "at_least": _bound("at least"),
    "at_most": _bound("at most"),
    "within": _within,
}
