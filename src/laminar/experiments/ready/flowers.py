"""Flowers, in three parts: five epochs of one process; and for 1 and 3 epochs, one process against 6 workers with 3 parameter servers.

The study trained without a validation step, and its 0.967 in training became 0.661 in an evaluation of 12 photographs. Here a fifth of
the photographs is held out and tested after every epoch, so that over-fitting is seen while it happens.

The study supposes that its single node in the cloud was slow because it saved a checkpoint every 500 steps, which took 20 to 30 seconds.
`single node` does just that, and `slow store` saves often enough to be seen. A table has the arithmetic: how many checkpoints an epoch has
room for at each batch size, and how many the published times would need.
"""

from __future__ import annotations

from typing import Any, Final

from laminar.experiments.checkpoints import room_in_epochs
from laminar.experiments.ready import stacks, tables
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, at_least, below
from laminar.experiments.ready.studies import FLOWERS
from laminar.experiments.results import Extra

SOLO: Final[dict[str, Any]] = {"strategy": "solo"}
# checkpoints of the slow store: after how many steps, and seconds that one takes at least; the second pair for a quick look
SLOW, QUICK_SLOW = (25, 2.0), (10, 0.25)
NONE: Final = 1e9  # seconds between checkpoints: only those that are counted in steps are written
BATCHES: Final = (1, 2, 4, 8, 16, 32, 64)
# The rate is for one gradient at a time; six workers push theirs as they come, and each is weighed by its age.
TEAM, SMALL_TEAM = (6, 3), (2, 1)  # workers and servers; the small one for a quick look, which nine processes would take too long to start
LOCAL, SINGLE, SLOW_STORE = "local", "single node", "slow store"
LONGER: Final = 3  # times as many epochs, in which over-fitting is seen for certain


def _team(workers: int, servers: int) -> dict[str, Any]:
    strategy = {"kind": "downpour", "workers": workers, "shards": servers, "n_push": 1, "n_fetch": 1}
    return {"strategy": strategy}


def _at(place: str | None, ask: Ask) -> dict[str, Any]:
    """Where a variant runs, if anybody said so of any."""
    return {} if ask.single is None and ask.cluster is None else {"on": place or "local"}


def _size(ask: Ask) -> tuple[int, int]:
    """Workers and servers; as many of these as the study had for each worker."""
    usual = SMALL_TEAM if ask.quick else TEAM
    return usual if ask.workers is None else (ask.workers, max(1, ask.workers * usual[1] // usual[0]))


def ready(ask: Ask) -> tuple[Ready, ...]:
    if ask.quick:
        return (_against_local(ask, ask.epochs or 1),)
    if ask.epochs is not None:
        return _sequential(ask), _against_local(ask, ask.epochs)
    return _sequential(ask), *(_against_local(ask, n) for n in tables.FLOWERS_DISTRIBUTED)


def _sequential(ask: Ask) -> Ready:
    epochs = ask.epochs or len(tables.FLOWERS)
    known = {"accuracy": tables.FLOWERS_TEST, "train_accuracy": tables.FLOWERS[-1], "test_seconds": tables.FLOWERS_TEST_SECONDS}
    published = known if epochs == len(tables.FLOWERS) else {}
    longer = f"local, {LONGER * epochs} epochs"
    return Ready(
        name="flowers",
        title="Flowers: one process, with photographs held out",
        question="How far does a network over-fit 2,936 photographs?",
        choices=(
            Choice(label=LOCAL, settings={"epochs": epochs, **SOLO}, published=published),
            Choice(label=longer, settings={"epochs": LONGER * epochs, **SOLO}),
        ),
        measures=("train_accuracy", "accuracy", "overfit", "loss", "train_loss", "seconds_per_epoch", "test_seconds"),
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
            f"Its {tables.FLOWERS_TEST} is of {tables.FLOWERS_TEST_IMAGES} photographs: one more or less of them is 8 points. "
            f"They took it {tables.FLOWERS_TEST_SECONDS} s.",
        ),
    )


def _against_local(ask: Ask, epochs: int) -> Ready:
    many = f"{epochs} epoch{'s' if epochs > 1 else ''}"
    single = tables.FLOWERS_SINGLE.get(epochs, {})
    each = tables.CHECKPOINT_SECONDS[0]
    workers, servers = _size(ask)
    team = tables.FLOWERS_DISTRIBUTED.get(epochs, {}) if (workers, servers) == TEAM else {}
    label = f"master, {workers} worker{'s' if workers > 1 else ''}, {servers} server{'s' if servers > 1 else ''}"
    processes = workers + servers
    crowded = (
        (f"{processes} processes on {ask.cores} cores: the study had a machine for each, so its time is out of reach here.",)
        if ask.cores < processes and ask.cluster in (None, "local")
        else ()
    )
    places = (
        (
            f"Single node: {ask.single or 'local'}; workers: {ask.cluster or 'local'}, their servers on this machine, beside the chief. "
            "On a cluster one process is one worker.",
        )
        if ask.single is not None or ask.cluster is not None
        else ()
    )
    slow = _slow_store(ask)
    fewer = (f"{label} instead of the study's {TEAM[0]} and {TEAM[1]}.",) if (workers, servers) != TEAM else ()
    return Ready(
        name=f"flowers-{epochs}",
        title=f"Flowers: local, single node, and {label}; {many}",
        question="What do workers and parameter servers win, and what do they cost in loss?",
        choices=(
            Choice(label=LOCAL, settings={**SOLO, **_at(None, ask)}, published={"seconds": 100.0, "loss": 100.0}),
            *(() if ask.quick else (Choice(label=SINGLE, settings=_saving(tables.CHECKPOINT_STEPS, each, ask), published=single),)),
            Choice(label=SLOW_STORE, settings=slow),
            Choice(label=label, settings={**_team(workers, servers), **_at(ask.cluster, ask)}, published=team),
        ),
        measures=(
            "seconds",
            "checkpoint_seconds",
            "without_checkpoints",
            "checkpoints",
            "seconds_per_epoch",
            "loss",
            "accuracy",
            "train_accuracy",
            "overfit",
        ),
        statements=(
            below("Workers with parameter servers take less time than one process.", "seconds", label, LOCAL, claim="2.g"),
            below("They take less than two fifths of it.", "seconds", label, LOCAL, 40.0, claim="2.g"),
            below("Their loss is within a per cent of that of one process.", "loss", label, LOCAL, 101.0, claim="2.g"),
            *(
                ()
                if ask.quick
                else (
                    above(
                        f"A single node that saves a checkpoint every {tables.CHECKPOINT_STEPS} steps, each in {each:g} s, takes more "
                        "than twice as long.",
                        "seconds",
                        SINGLE,
                        LOCAL,
                        200.0,
                        claim="2.f",
                    ),
                )
            ),
            above("A store that is slow to write slows training down.", "seconds", SLOW_STORE, LOCAL),
            below(
                "Without its checkpoints it takes as long as one process that writes none, within a tenth.",
                "without_checkpoints",
                SLOW_STORE,
                LOCAL,
                110.0,
            ),
            below("Checkpoints change nothing of the loss.", "loss", SLOW_STORE, LOCAL, 100.1),
        ),
        study=FLOWERS,
        stack=stacks.flowers(ask),
        repeats=3,
        fixed={"epochs": epochs, "checkpoint_seconds": NONE},
        notes=(
            *crowded,
            *fewer,
            *places,
            "Seconds of several processes have their start in them; those of an epoch have not.",
            f"{SLOW_STORE}: a checkpoint every {slow['checkpoint_steps']} steps, each in {slow['checkpoint_write_seconds']:g} s or more.",
            *((_explained(epochs),) if epochs in tables.FLOWERS_SINGLE else ()),
        ),
        tables=(_room(epochs),) if epochs in tables.FLOWERS_SINGLE else (),
    )


def _explained(epochs: int) -> str:
    """What the arithmetic comes to, at the batch that has room for the most checkpoints."""
    *rows, needed = _room(epochs).rows
    most = max(rows, key=lambda row: float(row["checkpoints"] or 0))
    have = f"{epochs} epochs of batch {most['batch']} have" if epochs > 1 else f"{epochs} epoch of batch {most['batch']} has"
    return (
        f"The study's explanation of its single node does not follow from its figures at any batch size: {have} {most['checkpoints']} "
        f"checkpoints, which explain at most {float(most['to at most'] or 0):.0f} % of the time that it took longer; "
        f"{needed['checkpoints']} are needed."
    )


def _saving(steps: int, seconds: float, ask: Ask) -> dict[str, Any]:
    return {**SOLO, "checkpoint_steps": steps, "checkpoint_write_seconds": seconds, **_at(ask.single, ask)}


def _slow_store(ask: Ask) -> dict[str, Any]:
    steps, seconds = QUICK_SLOW if ask.quick else SLOW
    return _saving(ask.checkpoint_steps or steps, seconds if ask.write_seconds is None else ask.write_seconds, ask)


def _room(epochs: int) -> Extra:
    """Could checkpoints explain the single node's time, whatever its batch was?"""
    local = epochs * sum(tables.FLOWERS_EPOCH_SECONDS) / len(tables.FLOWERS_EPOCH_SECONDS)
    percent = tables.FLOWERS_SINGLE[epochs]["seconds"]
    longer = local * (percent - 100) / 100
    low, high = tables.CHECKPOINT_SECONDS
    return room_in_epochs(
        "checkpoint-room",
        f"Arithmetic of the study's explanation: {epochs} epoch{'s' if epochs > 1 else ''} of {tables.FLOWERS_IMAGES:,} images took "
        f"{percent} % of some {local:.0f} s, {longer:.0f} s longer; a checkpoint every {tables.CHECKPOINT_STEPS} steps takes "
        f"{low:.0f} to {high:.0f} s",
        images=tables.FLOWERS_IMAGES,
        every=tables.CHECKPOINT_STEPS,
        each=tables.CHECKPOINT_SECONDS,
        batches=BATCHES,
        longer=longer,
        epochs=epochs,
    )
