"""Meter: everything that is measured goes through it. What is kept is not measured again, and the rest when the machine is quiet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

from laminar.core import digest
from laminar.plan.profile.busy import Quiet
from laminar.plan.profile.kept import Kept
from laminar.plan.profile.this_machine import this_machine, torch_version
from laminar.plan.profile.timing import Effort, as_in_training

Tell = Callable[[str, int, int], None]  # what is being measured, how many of them are done, of how many


def silent(what: str, done: int, of: int) -> None:
    """A Tell that says nothing."""


class Wanted(NamedTuple):
    key: Mapping[str, Any]  # all that it depends on, but for machine, torch and threads
    measure: Callable[[], Any]  # gives whatever JSON can say


@final
class Meter:
    """`measured` counts what was not known before."""

    def __init__(self, kept: Kept, *, quiet: Quiet | None = None, tell: Tell = silent, effort: Effort | None = None) -> None:
        self.kept, self.quiet, self.tell, self.effort = kept, quiet or Quiet(), tell, effort or Effort()
        self.measured = 0
        self._known: dict[str, Any] = {}

    def one(self, what: str, key: Mapping[str, Any], measure: Callable[[], Any], *, threads: int = 1) -> Any:
        return self.many(what, [Wanted(key, measure)], threads=threads)[0]

    def many(self, what: str, wanted: Sequence[Wanted], *, threads: int = 1) -> list[Any]:
        """In the order of what is wanted; equal keys are measured once. `what`: for people."""
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
        def all_of_them() -> dict[str, Any]:
            found = dict[str, Any]()
            with as_in_training(threads):
                for text, (_, measure) in missing.items():
                    self.tell(what, len(found), len(missing))
                    found[text] = measure()
            self.tell(what, len(found), len(missing))
            return found

        made, quiet = self.quiet.during(all_of_them)
        self.measured += len(made)
        self.kept.put_all([(missing[text][0], value) for text, value in made.items()], quiet=quiet)
        self._known |= made


def _whole(key: Mapping[str, Any], threads: int) -> dict[str, Any]:
    return {**key, "threads": threads, "torch": torch_version(), "machine": this_machine().to_json()}
