"""Rates for `laminar experiment batch` on two workers: five for each optimizer and batch, chosen by 10,000 images of the training part.

    LAMINAR_DATA=… python benchmarks/batch_rates.py [--only adam,sgd] [--data fashion-mnist]

No claim: it prints epochs to the target accuracy for each rate, and the one with the fewest. Every optimizer has the same rates for both
batches, a factor of two apart, and each is trained once, for as many epochs as the experiment has. `sync` workers learn what one process
learns, so one process chooses; the images that the experiment tests with are not looked at.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np

from laminar.data.open import open_data
from laminar.data.spec import DataSpec
from laminar.experiments.measures import measure_of
from laminar.experiments.prepare import prepare
from laminar.experiments.ready.batch import EPOCHS, HIGH, LINE, MOMENTUM, TARGET, label
from laminar.experiments.ready.stacks import MLP
from laminar.experiments.run import run
from laminar.experiments.spec import Sweep, VariantSpec
from laminar.stack.read import parse
from laminar.store.store import Store

LOWEST: Final = {"adam": 0.002, "lamb": 0.003, "sgd": 0.05, "lars": 1.0, "adamw": 0.002}
RATES: Final = 5
HELD_OUT: Final = 10_000


def settings(optimizer: str, batch: int, rate: float) -> dict[str, Any]:
    return {"optimizer": optimizer, "batch": batch, "lr": rate, "epochs": EPOCHS[batch], **MOMENTUM.get(optimizer, {})}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--only", default=",".join(LOWEST), help="optimizers")
    asked.add_argument("--data", default="fashion-mnist")
    args = asked.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train = open_data(DataSpec(source=args.data), folder).train
        order = np.random.default_rng(0).permutation(len(train))
        test, rest = order[:HELD_OUT], order[HELD_OUT:]
        np.savez(folder / "part.npz", x=train.x[rest], y=train.y[rest], x_test=train.x[test], y_test=train.y[test])
        file = parse(MLP.format(name="rates", data='source = "npz:part.npz"'), folder / "laminar.toml")
        store = Store.open(folder / ".laminar")
        for optimizer in args.only.split(","):
            for batch in (LINE, HIGH):
                rates = [LOWEST[optimizer] * 2**power for power in range(RATES)]
                sweep = Sweep(
                    name=f"{optimizer}-{batch}",
                    variant=[VariantSpec(settings=settings(optimizer, batch, rate), label=f"{rate:g}") for rate in rates],
                    set={"target": {"accuracy": TARGET}},
                    target=TARGET,
                    measures=["epochs_to_target", "accuracy"],
                    repeats=1,
                    timed=False,
                )
                prepared = prepare(sweep, file, store)
                trials = {one.variant: one for one in run(prepared.description, prepared.sweep, prepared.file, store)}
                epochs = [measure_of(trials[one.id], "epochs_to_target", TARGET) for one in prepared.description.variants]
                reached = [(value, rate) for value, rate in zip(epochs, rates, strict=True) if value is not None]
                shown = ", ".join(f"{rate:g}: {value:.2f}" if value else f"{rate:g}: -" for value, rate in zip(epochs, rates, strict=True))
                print(f"{label(optimizer, batch)}: {shown}; best {min(reached)[1]:g}" if reached else f"{label(optimizer, batch)}: {shown}")


if __name__ == "__main__":
    main()
