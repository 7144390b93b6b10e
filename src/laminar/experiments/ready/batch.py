"""Batches from 32 to 8192 against steps and time to a target accuracy, with plain optimizers and with LARS and LAMB.

Every optimizer has a rate for every batch, as a fair comparison needs (Shallue et al., JMLR 2019). Those for 32, 512, 2048 and 8192 were
chosen by the steps to 0.86 on 10,000 images of the training part, out of two to four each (of LARS, those for 32, 512 and 8192 by the
steps to 0.84 with 15,000 images, out of four each); those between lie between. The law
`steps(B) = S_min (1 + B_crit / B)` (McCandlish et al., arXiv 1812.06162) is fitted to what is found, per optimizer.
"""

from __future__ import annotations

from typing import Any, Final

from laminar.experiments.ready import stacks
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, below
from laminar.experiments.ready.studies import GRADIENTS

# batch: epochs in which the target is reached or given up
EPOCHS: Final = {32: 8, 128: 10, 512: 15, 1024: 20, 2048: 30, 4096: 40, 8192: 40}
RATES: Final = {
    "adam": (0.002, 0.004, 0.008, 0.008, 0.008, 0.012, 0.016),
    "lamb": (0.003, 0.006, 0.012, 0.012, 0.012, 0.01, 0.01),
    "sgd": (0.02, 0.05, 0.1, 0.15, 0.2, 0.2, 0.2),
    "lars": (1.0, 2.0, 5.0, 5.0, 4.0, 4.0, 4.0),
}
MOMENTUM: Final[dict[str, dict[str, Any]]] = {"sgd": {"momentum": 0.9}, "lars": {"momentum": 0.9}}
PAIRS: Final = (("adam", "lamb"), ("sgd", "lars"))
TARGET: Final = 0.86  # of Fashion-MNIST: small enough for batches of 8,192 to reach it
LINE: Final = 1024  # above which the paper says that a batch does not pay


def label(optimizer: str, batch: int) -> str:
    return f"{optimizer}, {batch:,}"


def epochs_of(batch: int, ask: Ask) -> int:
    """With fewer samples more of them, so that there are as many steps."""
    whole = stacks.SAMPLES.get(ask.data or stacks.USUAL)
    return EPOCHS[batch] * (max(1, whole // ask.samples) if whole and ask.samples and not ask.at_hand else 1)


def ready(ask: Ask) -> Ready:
    batches = (32, 512, 2048) if ask.quick else tuple(EPOCHS)
    names = ("adam", "lamb") if ask.quick else tuple(RATES)
    usual = ask.target is None and not ask.at_hand and not ask.quick and (ask.data or stacks.USUAL) == stacks.USUAL
    target = TARGET if usual else stacks.target_of(ask)
    first, last = batches[0], batches[-1]
    choices = [
        Choice(
            label=label(name, batch),
            settings={"batch": batch, "optimizer": name, "lr": rate, "epochs": epochs_of(batch, ask), **MOMENTUM.get(name, {})},
            line=name,
        )
        for name in names
        for batch, rate in zip(EPOCHS, RATES[name], strict=True)
        if batch in batches
    ]
    return Ready(
        name="batch",
        title=f"Batch size, to an accuracy of {target:g}",
        question="How far do larger batches save steps and time, and do LARS and LAMB carry further?",
        choices=tuple(choices),
        measures=("steps_to_target", "time_to_target", "samples_per_second", "accuracy"),
        statements=(
            *(
                above(
                    f"Above {LINE:,} a batch stops to pay: with {name}, {last:,} takes longer than {LINE:,}.",
                    "time_to_target",
                    label(name, last),
                    label(name, LINE),
                )
                for name in names
                if LINE in batches
            ),
            *(
                below(
                    f"{other.upper()} keeps scaling: at {last:,} it needs fewer steps than {name}.",
                    "steps_to_target",
                    label(other, last),
                    label(name, last),
                )
                for name, other in PAIRS
                if other in names
            ),
            *(
                below(f"With {name}, larger batches need fewer steps.", "steps_to_target", label(name, last), label(name, first))
                for name in names
            ),
        ),
        study=GRADIENTS,
        stack=stacks.mlp(ask),
        fixed={"target": {"accuracy": target}},
        target=target,
        warm_up=0,  # 28 of them would take as long as a repeat
        notes=("The rates were chosen for one hidden module of 128 on Fashion-MNIST.",),
    )
