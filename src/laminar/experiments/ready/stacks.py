"""Stacks that ready experiments bring with them, where none is at hand: an MLP on Fashion-MNIST, and a small CNN on flowers."""

from __future__ import annotations

from typing import Final

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.experiments.ready.form import Ask

# One hidden module of 128, Adam and batches of 32, as in the study; one thread, so that what is compared is workers.
MLP: Final = """\
[stack]
name = "{name}"

[data.all]
{data}

[[layer]]
name = "net"
model = "laminar:mlp"
args = {{ hidden = [128] }}
data = "all"
train = {{ epochs = 5, batch = 32, optimizer = "adam", lr = 0.001, seed = 0, threads = 1 }}
"""

FLOWERS: Final = """\
[stack]
name = "flowers"

[data.all]
source = "flowers"
size = {size}
split = {{ test = 0.2, seed = 0 }}      # held out: what training must not see

[[layer]]
name = "net"
model = "laminar:convnet"
args = {{ channels = [16, 32, 64], hidden = [128], norm = false }}
data = "all"
train = {{ epochs = 5, batch = 16, optimizer = "adam", lr = 0.001, seed = 0, threads = 1 }}
"""

# What --data may name: its [data] table, and an accuracy that the MLP reaches on it in a few epochs, with all data and in a quick run.
DATA: Final = {
    "fashion-mnist": ('source = "fashion-mnist"', 0.87, 0.74),
    "mnist": ('source = "mnist"', 0.97, 0.82),
    "digits": ('source = "digits"', 0.93, 0.88),
    "glyphs": ('source = "glyphs"\nargs = { count = 4000 }', 0.9, 0.6),
}
USUAL: Final = "fashion-mnist"
SAMPLES: Final = {"fashion-mnist": 60_000, "mnist": 60_000, "digits": 1_437}  # of training, of data sets of digits and clothes
GLYPHS: Final = 3_200  # … of the glyphs drawn here


def _known(ask: Ask) -> str:
    name = ask.data or USUAL
    if name not in DATA:
        raise LaminarError(
            "L008", f"--data {name}: there is no such data set here; {did_you_mean(name, DATA)}", hint="--data " + " | ".join(DATA)
        )
    return name


def mlp(ask: Ask) -> str:
    name = _known(ask)
    return MLP.format(name=name, data=DATA[name][0])


def flowers(ask: Ask) -> str:
    if ask.data is not None:
        raise LaminarError("L008", f"--data {ask.data}: this experiment is about flowers", hint="leave --data out")
    return FLOWERS.format(size=32 if ask.quick else 64)


def target_of(ask: Ask) -> float:
    """The accuracy that is waited for. A quick run has too few samples for the usual one."""
    if ask.target is not None:
        return ask.target
    if ask.at_hand:
        raise LaminarError(
            "L008", "the time to a target is measured, and only you know which accuracy your layer should reach", hint="--target 0.9"
        )
    _, wanted, quick = DATA[_known(ask)]
    return quick if ask.quick else wanted
