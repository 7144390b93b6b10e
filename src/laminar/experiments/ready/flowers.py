"""Flowers, in three parts: five epochs of one process; and for 1 and 3 epochs, one process against 6 workers with 3 parameter servers.

The study trained without a validation step, and its 0.967 in training became 0.661 in an evaluation of 12 photographs. Here a fifth of
the photographs is held out and tested after every epoch, so that over-fitting is seen while it happens. The study's single node in the
cloud was slow because writing a checkpoint every 500 steps took 20 to 30 seconds; `single node` is one process that writes one every
second.
"""

from __future__ import annotations

from typing import Any, Final

from laminar.experiments.ready import stacks, tables
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, at_least, below
from laminar.experiments.ready.studies import FLOWERS

SOLO: Final[dict[str, Any]] = {"strategy": "solo", "checkpoint_seconds": 30.0}
OFTEN: Final[dict[str, Any]] = {"strategy": "solo", "checkpoint_seconds": 1.0}
# The rate is for one gradient at a time; six workers push theirs as they come, and each is weighed by its age.
TEAM, SMALL_TEAM = (6, 3), (2, 1)  # workers and servers; the small one for a quick look, which nine processes would take too long to start
LOCAL, SINGLE = "local", "single node"
LONGER: Final = 3  # times as many epochs, in which over-fitting is seen for certain


def _team(workers: int, servers: int) -> dict[str, Any]:
    strategy = {"kind": "downpour", "workers": workers, "shards": servers, "n_push": 1, "n_fetch": 1}
    return {"strategy": strategy, "checkpoint_seconds": 30.0}


def ready(ask: Ask) -> tuple[Ready, ...]:
    if ask.quick:
        return (_against_local(ask, ask.epochs or 1),)
    if ask.epochs is not None:
        return _sequential(ask), _against_local(ask, ask.epochs)
    return _sequential(ask), *(_against_local(ask, n) for n in tables.FLOWERS_DISTRIBUTED)


def _sequential(ask: Ask) -> Ready:
    epochs = ask.epochs or len(tables.FLOWERS)
    published = {"accuracy": tables.FLOWERS_TEST, "train_accuracy": tables.FLOWERS[-1]} if epochs == len(tables.FLOWERS) else {}
    longer = f"local, {LONGER * epochs} epochs"
    return Ready(
        name="flowers",
        title="Flowers: one process, with photographs held out",
        question="How far does a network over-fit 2,936 photographs?",
        choices=(
            Choice(label=LOCAL, settings={"epochs": epochs, **SOLO}, published=published),
            Choice(label=longer, settings={"epochs": LONGER * epochs, **SOLO}),
        ),
        measures=("train_accuracy", "accuracy", "overfit", "loss", "train_loss", "seconds_per_epoch"),
        statements=(
            at_least("It over-fits: training accuracy is 10 points or more above that on photographs held out.", "overfit", LOCAL, 0.1),
            at_least(f"So it does after {LONGER * epochs} epochs.", "overfit", longer, 0.1),
            above("Training on makes it worse on photographs held out: the loss rises.", "loss", longer, LOCAL),
            at_least(f"The accuracy on photographs held out is {tables.FLOWERS_TEST} or more.", "accuracy", LOCAL, tables.FLOWERS_TEST),
        ),
        study=FLOWERS,
        percent=False,
        repeats=4,  # what is held against a figure needs four
        stack=stacks.flowers(ask),
        epochs=tuple({"train_accuracy": one} for one in tables.FLOWERS),
        notes=(
            "The study had another network and larger pictures: an epoch took it 261 to 270 s.",
            f"Its {tables.FLOWERS_TEST} is of {tables.FLOWERS_TEST_IMAGES} photographs: one more or less of them is 8 points.",
        ),
    )


def _against_local(ask: Ask, epochs: int) -> Ready:
    many = f"{epochs} epoch{'s' if epochs > 1 else ''}"
    single = tables.FLOWERS_SINGLE.get(epochs, {})
    team = {} if ask.quick else tables.FLOWERS_DISTRIBUTED.get(epochs, {})
    workers, servers = SMALL_TEAM if ask.quick else TEAM
    label = f"master, {workers} workers, {servers} server{'s' if servers > 1 else ''}"
    processes = workers + servers
    crowded = (
        (f"{processes} processes on {ask.cores} cores: the study had a machine for each, so its time is out of reach here.",)
        if ask.cores < processes
        else ()
    )
    fewer = (f"{workers} workers and {servers} server instead of the study's {TEAM[0]} and {TEAM[1]}.",) if ask.quick else ()
    return Ready(
        name=f"flowers-{epochs}",
        title=f"Flowers: local, single node, and {label}; {many}",
        question="What do workers and parameter servers win, and what do they cost in loss?",
        choices=(
            Choice(label=LOCAL, settings=SOLO, published={"seconds": 100.0, "loss": 100.0}),
            Choice(label=SINGLE, settings=OFTEN, published=single),
            Choice(label=label, settings=_team(workers, servers), published=team),
        ),
        measures=("seconds", "seconds_per_epoch", "loss", "accuracy", "train_accuracy", "overfit"),
        statements=(
            below("Workers with parameter servers take less time than one process.", "seconds", label, LOCAL, claim="2.g"),
            below("They take less than two fifths of it.", "seconds", label, LOCAL, 40.0, claim="2.g"),
            above(
                "A single node that keeps writing checkpoints takes more than twice as long.", "seconds", SINGLE, LOCAL, 200.0, claim="2.f"
            ),
            below("Their loss is within a per cent of that of one process.", "loss", label, LOCAL, 101.0, claim="2.g"),
            below("So is that of a single node that keeps writing checkpoints.", "loss", SINGLE, LOCAL, 101.0),
        ),
        study=FLOWERS,
        stack=stacks.flowers(ask),
        repeats=3,
        fixed={"epochs": epochs},
        notes=(*crowded, *fewer, "Seconds of several processes have their start in them; those of an epoch have not."),
    )
