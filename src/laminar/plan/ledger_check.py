"""How good predictions were: their errors, and whether they put plans in the right order. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import mean, median
from typing import TYPE_CHECKING, Any, Final

from laminar.core.figures import many
from laminar.plan.rank_correlation import kendall_tau

if TYPE_CHECKING:
    from laminar.plan.ledger import Entry

TRUSTED: Final = 0.7  # of Kendall's tau: below it the order of plans is not to be relied on
PLANS: Final = 3  # of one job: with fewer an order says nothing


@dataclass(frozen=True)
class Errors:
    """Of predicted against measured seconds of a step, as a share of the measured ones; None where nothing was measured."""

    count: int
    median: float | None
    maximum: float | None

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Errors:
        found = [abs(one.predicted_seconds - one.measured_seconds) / one.measured_seconds for one in entries]
        return cls(len(found), median(found), max(found)) if found else cls(0, None, None)


@dataclass(frozen=True)
class Check:
    all: Errors
    kinds: dict[str, Errors] = field(default_factory=dict)
    tau: float | None = None  # Kendall's, within each job, on average; None: no job has enough plans
    jobs: int = 0  # that it is the average of
    busy: int = 0  # of all, that were measured while other programs were at work

    @property
    def warning(self) -> str:
        """Empty: there is nothing to warn of."""
        if self.tau is None or self.tau >= TRUSTED:
            return ""
        return f"predictions do not order plans well (Kendall's tau {self.tau:.2f}, below {TRUSTED}): run more of them before choosing"

    @property
    def text(self) -> str:
        if not self.all.count:
            return "nothing was predicted and measured yet: laminar build --strategy auto does both"
        lines = [f"{many(self.all.count, 'prediction')}: {_words(self.all)}"]
        width = max(map(len, self.kinds))
        lines += [f"  {kind:<{width}}  {many(errors.count, 'prediction')}: {_words(errors)}" for kind, errors in self.kinds.items()]
        if self.tau is None:
            lines.append(f"order of plans: not known, no layer has {PLANS} plans that were run on one machine")
        else:
            lines.append(f"order of plans: Kendall's tau {self.tau:.2f} over {many(self.jobs, 'job')} (1 is the right order, 0 is none)")
        if self.busy:
            lines.append(f"{self.busy} of {self.all.count} measured while other programs were at work, which says little of predictions")
        return "\n".join(lines + ([f"warning: {self.warning}"] if self.warning else []))

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self.all),
            "kinds": {kind: asdict(errors) for kind, errors in self.kinds.items()},
            "tau": self.tau,
            "jobs": self.jobs,
            "busy": self.busy,
            "warning": self.warning,
        }


def check(entries: Sequence[Entry]) -> Check:
    """Of entries in the order in which they were written."""
    told = [one for one in entries if not one.calibration]
    kinds = {kind: Errors.of([one for one in told if one.kind == kind]) for kind in sorted({one.kind for one in told})}
    taus = [tau for job in _jobs(told) if (tau := _tau(job)) is not None]
    return Check(Errors.of(told), kinds, mean(taus) if taus else None, len(taus), sum(not one.quiet for one in told))


def _jobs(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Plans that can be compared with each other: of one model with one batch on one machine. Of a plan that was run again, the newest."""
    found: dict[tuple[Any, ...], dict[tuple[str, int], Entry]] = {}
    for one in entries:
        found.setdefault((one.machine, one.torch, one.layer, one.model, one.batch), {})[one.strategy, one.workers] = one
    return [list(plans.values()) for plans in found.values()]


def _tau(plans: Sequence[Entry]) -> float | None:
    if len(plans) < PLANS:
        return None
    return kendall_tau([one.predicted_seconds for one in plans], [one.measured_seconds for one in plans])


def _words(errors: Errors) -> str:
    if errors.count == 1:
        return f"wrong by {errors.median:.0%}"
    return f"wrong by {errors.median:.0%} in the middle, {errors.maximum:.0%} at most"
