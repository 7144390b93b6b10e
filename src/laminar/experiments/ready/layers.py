"""Layers: time against accuracy, of classic development and of development in layers. MNIST, data parallelism.

    classic    one network, all ten digits, everything trained from zero
    layered    strokes: the same network on digits 0 to 4; shapes: on 0 to 7, bottom frozen, new head; digits: on all ten, bottom and
               middle frozen, new head. Each stands on the one before
    changed    a mistake in the last part is mended (another head): classic trains all again, layered the last layer

Seconds are those of training alone; the start of processes and of a cluster, which all share, is in neither. With a target, each part is
trained until it has that accuracy on digits of its own, and the time to it is what is compared, as in the paper's figure 2.
"""

from __future__ import annotations

from typing import Final

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, below
from laminar.experiments.ready.stacks import SAMPLES
from laminar.experiments.ready.studies import LAYERS
from laminar.experiments.variants import QUICK_REPEATS

MODELS: Final = '''\
"""A convolutional network in three parts, and a head that can be put in the place of its own."""

from torch import nn


def block(before, after):
    return [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]


class Net(nn.Module):
    def __init__(self, classes, input_shape, hidden):
        super().__init__()
        side = input_shape[-1] // 4
        self.bottom = nn.Sequential(*block(input_shape[0], 16), *block(16, 32))
        self.middle = nn.Sequential(nn.Flatten(), nn.Linear(32 * side * side, 128), nn.ReLU())
        self.head = head(None, classes, hidden)

    def forward(self, x):
        return self.head(self.middle(self.bottom(x)))


def net(classes, input_shape, hidden=32):
    return Net(classes, input_shape, hidden)


def head(old, classes, hidden=32):
    return nn.Sequential(nn.Linear(128, hidden), nn.ReLU(), nn.Linear(hidden, classes))
'''
STACK: Final = """\
[stack]
name = "{name}"

{data}
{layers}"""
DATA: Final = """\
[data.{name}]
source = "{source}"
classes = {classes}
limit = {limit}
"""
LAYER: Final = """\
[[layer]]
name = "{name}"
{base}
data = "{data}"
train = {{ epochs = {epochs}, batch = {batch}, optimizer = "adam", lr = 0.001, seed = {seed}, threads = 1, {strategy}{target} }}
"""
DIGITS: Final = {"five": 5, "eight": 8, "ten": 10}
QUICK_SAMPLES, QUICK_EPOCHS = 3_000, 2
PATIENT: Final = 4  # times as many epochs, where training ends when it has reached what is waited for
WARM_SAMPLES: Final = 500
FIRST, CHANGED = "first", "changed"
HEADS: Final = {FIRST: 32, CHANGED: 48}  # width of the last part: as it was at first, and mended

TO_TARGET: Final = "time_to_target"
CLASSIC, LAYERED, ALL = "classic", "layered", "layered, all three"
WAYS: Final = (CLASSIC, LAYERED)
# every part in the order in which it is trained: which way, which layer, and whether after the change
PARTS: Final = {
    CLASSIC: (CLASSIC, "classic", FIRST),
    "layered: strokes": (LAYERED, "strokes", FIRST),
    "layered: shapes": (LAYERED, "shapes", FIRST),
    "layered: digits": (LAYERED, "digits", FIRST),
    ALL: (LAYERED, "digits", FIRST),
    "classic, changed": (CLASSIC, "classic", CHANGED),
    "layered, changed: digits": (LAYERED, "digits", CHANGED),
}
# what the retraining after a mistake stands on, and then that, before all else: for a look that may end before everything is trained
MENDED_FIRST: Final = (
    "layered: strokes",
    "layered: shapes",
    "layered: digits",
    "layered, changed: digits",
    "classic, changed",
    CLASSIC,
    ALL,
)
MENDED: Final = ("classic, changed", "layered, changed: digits")


def ready(ask: Ask) -> Ready:
    source_of(ask)
    first, second, third = list(PARTS)[1:4]
    time = "seconds" if ask.target is None else TO_TARGET
    return Ready(
        name="layers",
        title="Classic development, and development in layers",
        question="Does it pay to develop a network in layers: at first, and after a mistake in its last part?",
        choices=tuple(Choice(label=one, settings={"part": one}) for one in PARTS),
        measures=("seconds", "accuracy", "wall", "loss") if ask.target is None else (TO_TARGET, "seconds", "accuracy", "wall", "loss"),
        target=ask.target,
        statements=(
            below(
                "After a mistake in the last part, retraining the last layer costs less than retraining everything.",
                "wall",
                MENDED[1],
                MENDED[0],
                claim="1.c",
            ),
            below("Classic training takes longer than the training of the first layer.", time, first, CLASSIC, claim="1.a"),
            below("Classic training takes longer than the training of the second layer.", time, second, CLASSIC, claim="1.a"),
            below("Classic training takes longer than the training of the third layer.", time, third, CLASSIC, claim="1.a"),
            below("The second layer is trained faster than the first.", time, second, first, claim="1.b"),
            below("The third layer is trained faster than the second.", time, third, second, claim="1.b"),
            above("The first training in layers takes longer in all.", "wall", ALL, CLASSIC, claim="1.d"),
            above("The last layer is as accurate as the classic network, within a point.", "accuracy", third, CLASSIC, 99.0),
        ),
        study=LAYERS,
        notes=()
        if ask.target is None
        else (f"Each part is trained until it has an accuracy of {ask.target:g} on digits of its own kinds, or its epochs are over.",),
        repeats=QUICK_REPEATS if ask.quick else 1,
    )


def epochs_of(ask: Ask) -> int:
    """Of every part; at most, where there is a target."""
    return ask.epochs or (QUICK_EPOCHS if ask.quick else 5) * (PATIENT if ask.target is not None else 1)


def short(ask: Ask) -> str:
    """A quick look, in words."""
    return f"{QUICK_SAMPLES:,} training samples, {epochs_of(ask)} epochs" + (" at most" if ask.target is not None else "")


def source_of(ask: Ask) -> str:
    name = ask.data or "mnist"
    if name not in SAMPLES:
        raise LaminarError("L008", f"--data {name}: digits are wanted, in ten classes; {did_you_mean(name, SAMPLES)}", hint="--data mnist")
    return name


def stack_text(way: str, ask: Ask, *, workers: int, hidden: int, seed: int, most: int | None = None) -> str:
    """laminar.toml of one way, with a head of so many hidden units. `most`: samples."""
    source = source_of(ask)
    samples = min(SAMPLES[source], most or ask.samples or (QUICK_SAMPLES if ask.quick else SAMPLES[source]))
    strategy = 'strategy = "solo"' if workers == 1 else f'strategy = {{ kind = "sync", workers = {workers} }}'
    settings = {
        "epochs": epochs_of(ask),
        "target": "" if ask.target is None else f", target = {{ accuracy = {ask.target!r} }}",
        "batch": ask.batch or (256 if samples > 10_000 else 32),
        "seed": seed,
        "strategy": strategy,
    }

    def layer(name: str, data: str, base: str) -> str:
        return LAYER.format(name=name, data=data, base=base, **settings)

    def data(*names: str) -> str:
        found = {one: (list(range(DIGITS[one])), samples * DIGITS[one] // 10) for one in names}
        return "\n".join(DATA.format(name=one, source=source, classes=classes, limit=limit) for one, (classes, limit) in found.items())

    top = f'replace = {{ head = {{ model = "models:head", args = {{ hidden = {hidden} }} }} }}'
    if way == CLASSIC:
        whole = f'model = "models:net"\nargs = {{ hidden = {hidden} }}'
        return STACK.format(name=way, data=data("ten"), layers=layer(CLASSIC, "ten", whole))
    layers = [
        layer("strokes", "five", 'model = "models:net"'),
        layer("shapes", "eight", 'from = "strokes"\nfreeze = ["bottom"]\nreplace = { head = "models:head" }'),
        layer("digits", "ten", f'from = "shapes"\nfreeze = ["bottom", "middle"]\n{top}'),
    ]
    return STACK.format(name=way, data=data(*DIGITS), layers="\n".join(layers))
