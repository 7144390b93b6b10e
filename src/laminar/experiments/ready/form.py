"""The form of a ready experiment: choices that differ in a few settings, what a paper published about them, and what is to be judged.

A choice says what it changes by names of axes (axes.py), which mean the same in the stack that comes with the experiment and in the one
at hand. Choices are listed, not multiplied: a rate belongs to its optimizer, threads to one worker. No torch: all of it is read, shown
and tested without.
"""

from __future__ import annotations

from typing import Any

import msgspec

from laminar.core.figures import many
from laminar.experiments.record import Statement
from laminar.experiments.results import Extra
from laminar.experiments.spec import PublishedSpec, Sweep, VariantSpec


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What was said on the command line. None: as the experiment has it."""

    quick: bool = False
    epochs: int | None = None
    batch: int | None = None
    samples: int | None = None  # of training, at most
    repeats: int | None = None
    target: float | None = None
    data: str | None = None  # of the stack that comes with the experiment
    layer: str | None = None
    name: str | None = None
    checkpoint_steps: int | None = None  # of `flowers`
    write_seconds: float | None = None
    single: str | None = None  # where its single node is
    cluster: str | None = None  # and its workers with servers
    workers: int | None = None  # how many of them
    even_if_busy: bool = False
    at_hand: bool = False  # the stack is the user's
    have: int | None = None  # training samples that its layer has, where that was looked up
    cores: int = 2  # of this machine
    command: str = ""  # with which the same is asked again


def own_wishes(ask: Ask) -> tuple[str, ...]:
    """A note where somebody asked for less or other than the experiment has: its figures are of that."""
    said = [many(value, unit) for value, unit in ((ask.samples, "training sample"), (ask.epochs, "epoch")) if value is not None]
    said += [f"batches of {ask.batch:,}"] if ask.batch is not None else []
    return (f"As asked for: {', '.join(said)}, instead of what the experiment has by itself.",) if said else ()


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One variant."""

    label: str
    settings: dict[str, Any]  # axis -> value
    published: dict[str, float] = {}  # by measure
    line: str = ""  # choices of one line are joined in pictures; the benchmark, if it is of none, begins every line


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """One question that can be asked with one command. The first choice is the benchmark: 100 %. The first statement is about the main
    question (catalogue.py), and a quick run has its variants repeated first."""

    name: str
    title: str
    question: str
    choices: tuple[Choice, ...]
    measures: tuple[str, ...]
    statements: tuple[Statement, ...] = ()
    study: str = ""  # where the published figures are from, and on what they were measured
    percent: bool = True  # they are per cent of the study's benchmark
    stack: str = ""  # laminar.toml of its own
    fixed: dict[str, Any] = {}  # settings of every choice, in any stack
    own: dict[str, Any] = {}  # … in its own stack alone
    repeats: int = 3
    timed: bool = True
    warm_up: int | None = None  # as the sweep has it: one where time is measured
    target: float | None = None
    epochs: tuple[dict[str, float], ...] = ()  # published of each epoch of the first choice: "train_accuracy", "seconds"
    notes: tuple[str, ...] = ()
    tables: tuple[Extra, ...] = ()  # arithmetic of a study: what no trial gives

    def fills(self, ask: Ask) -> bool:
        """A quick run repeats until its minute is over, where there is something to judge and nobody said how often."""
        return ask.quick and ask.repeats is None and bool(self.statements)

    def sweep(self, ask: Ask) -> Sweep:
        """As `laminar experiment run` has it."""
        chosen = {
            key: value for key, value in (("epochs", ask.epochs), ("batch", ask.batch), ("samples", ask.samples)) if value is not None
        }
        varied = {key for choice in self.choices for key in choice.settings}
        return Sweep(
            name=ask.name or self.name,
            title=self.title,
            question=self.question,
            layer=ask.layer,
            variant=[VariantSpec(settings=one.settings, label=one.label, line=one.line) for one in self.choices],
            set={key: value for key, value in {**({} if ask.at_hand else self.own), **self.fixed, **chosen}.items() if key not in varied},
            repeats=ask.repeats or self.repeats,
            timed=self.timed,
            warm_up=self.warm_up,
            even_if_busy=ask.even_if_busy,
            measures=list(self.measures),
            target=self.target,
            published=[
                PublishedSpec(settings=one.settings, measure=measure, value=value, source=self.study, percent=self.percent)
                for one in self.choices
                for measure, value in one.published.items()
            ],
            statement=[self._by_settings(one) for one in self.statements],
        )

    def _by_settings(self, statement: Statement) -> Statement:
        """Labels are for people, settings for rules."""
        known = {one.label: one.settings for one in self.choices}
        given = {key: known[value] if key in ("variant", "than") else value for key, value in statement.arguments.items()}
        return msgspec.structs.replace(statement, arguments=given)
