"""Meter: everything that is measured goes through it. What is kept is not measured again, and the rest when the machine is quiet, as long
as there is time for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from time import perf_counter as clock
from typing import Any, Final, NamedTuple, final

from laminar.core import digest
from laminar.plan.budget import ENDLESS, OutOfTime
from laminar.plan.profile.busy import Quiet
from laminar.plan.profile.kept import Kept
from laminar.plan.profile.this_machine import this_machine, torch_version
from laminar.plan.profile.timing import Effort, as_in_training

PIECE: Final = 2.0  # seconds, after which it is asked whether somebody was busy: what was disturbed is measured again

Tell = Callable[[str, int, int], None]  # what is being measured, how many of them are done, of how many


def silent(what: str, done: int, of: int) -> None:
    """A Tell that says nothing."""


class Wanted(NamedTuple):
    key: Mapping[str, Any]  # all that it depends on, but for machine, torch and threads
    measure: Callable[[], Any]  # gives whatever JSON can say


@final
class Meter:
    """`measured` counts what was not known before. `budget`: the time that there is, of whoever asks."""

    def __init__(self, kept: Kept, *, quiet: Quiet | None = None, tell: Tell = silent, effort: Effort | None = None) -> None:
        self.kept, self.quiet, self.tell, self.effort = kept, quiet or Quiet(), tell, effort or Effort()
        self.measured, self.budget = 0, ENDLESS
        self._known: dict[str, Any] = {}

    def knows(self, key: Mapping[str, Any], *, threads: int = 1) -> bool:
        """It need not be measured."""
        whole = _whole(key, threads)
        return digest.canonical(whole).decode() in self._known or self.kept.get(whole, also_busy=self.quiet.even_if_busy) is not None

    def one(self, what: str, key: Mapping[str, Any], measure: Callable[[], Any], *, threads: int = 1) -> Any:
        return self.many(what, [Wanted(key, measure)], threads=threads)[0]

    def many(self, what: str, wanted: Sequence[Wanted], *, threads: int = 1) -> list[Any]:
        """In the order of what is wanted; equal keys are measured once. `what`: for people. OutOfTime if something is not known and there
        is no time to measure it; what was measured until then is kept."""
        whole = [_whole(one.key, threads) for one in wanted]
        texts = [digest.canonical(key).decode() for key in whole]
        missing: dict[str, tuple[Mapping[str, Any], Callable[[], Any]]] = {}
        for text, key, one in zip(texts, whole, wanted, strict=True):
            if text in self._known or text in missing:
                continue
            if (found := self.kept.get(key, also_busy=self.quiet.even_if_busy)) is not None:
                self._known[text] = found
            else:
                missing[text] = key, one.measure
        if missing:
            self._measure(what, missing, threads)
        return [self._known[text] for text in texts]

    def _measure(self, what: str, missing: Mapping[str, tuple[Mapping[str, Any], Callable[[], Any]]], threads: int) -> None:
        """Piece by piece: what somebody disturbs is little, and so is what is lost when time is over."""
        behind = 0
        while behind < len(missing):
            if self.budget.over:
                raise OutOfTime(what)

            def some_of_them(begin: int = behind) -> dict[str, Any]:
                found, until = dict[str, Any](), clock() + PIECE
                with as_in_training(threads):
                    for text, (_, measure) in islice(missing.items(), begin, None):
                        if self.budget.over or (found and clock() > until):
                            break
                        self.tell(what, begin + len(found), len(missing))
                        found[text] = measure()
                return found

            made, quiet = self.quiet.during(some_of_them)
            self.measured += len(made)
            self.kept.put_all([(missing[text][0], value) for text, value in made.items()], quiet=quiet)
            self._known |= made
            behind += len(made)
        self.tell(what, behind, len(missing))


def _whole(key: Mapping[str, Any], threads: int) -> dict[str, Any]:
    return {**key, "threads": threads, "torch": torch_version(), "machine": this_machine().to_json()}
