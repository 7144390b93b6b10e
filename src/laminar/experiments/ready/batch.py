"""Batches from 32 to 8192 against steps and time to a target accuracy, with plain optimizers and with LARS and LAMB.

Every optimizer has a rate for every batch, as a fair comparison needs (Shallue et al., JMLR 2019). Those for 32, 512, 2048 and 8192 were
chosen by the steps to 0.86 on 10,000 images of the training part, out of two to four each (of LARS, those for 32, 512 and 8192 by the
steps to 0.84 with 15,000 images, out of four each); those between lie between. The law
`steps(B) = S_min (1 + B_crit / B)` (McCandlish et al., arXiv 1812.06162) is fitted to what is found, per optimizer.

A second part holds 4,096 against 1,024 on two workers, where a larger batch has more to share out. Its rates were all chosen with the
same budget: five for each optimizer and batch, a factor of two apart, by the epochs to the target on 10,000 images of the training part
(benchmarks/batch_rates.py). Adagrad is not among the optimizers: at 4,096 none of its five rates reached the target.
"""

from __future__ import annotations

from typing import Any, Final

from laminar.core.errors import LaminarError
from laminar.experiments.extras import PAYS
from laminar.experiments.ready import stacks
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, below
from laminar.experiments.ready.studies import GRADIENTS
from laminar.experiments.variants import QUICK_SAMPLES

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
HIGH: Final = 4096  # held against it on two workers
TEAM: Final = 2
TEAM_EPOCHS: Final = 2  # times as many as one process has: LARS needs nearly all of those
# On two workers: optimizer -> rates for LINE and HIGH
TEAM_RATES: Final[dict[str, tuple[float, float]]] = {
    "adam": (0.008, 0.016),
    "adamw": (0.016, 0.016),
    "lamb": (0.012, 0.012),
    "sgd": (0.1, 0.2),
    "lars": (4.0, 4.0),
}
# A quick run: so many samples, of which HIGH makes two steps an epoch; and an accuracy that is reached in a second or two
QUICK_OWN, QUICK_TARGET = 2 * HIGH, 0.8
QUICK: Final = {"adam": (128, LINE, HIGH), "lamb": (LINE, HIGH)}


def label(optimizer: str, batch: int) -> str:
    return f"{optimizer}, {batch:,}"


def epochs_of(batch: int, ask: Ask) -> int:
    """With fewer samples more of them, so that there are as many steps."""
    whole, samples = _whole(ask), _samples(ask)
    return EPOCHS[batch] * (max(1, whole // samples) if whole and samples and not ask.at_hand else 1)


def ready(ask: Ask) -> tuple[Ready, ...]:
    one = _one_process(ask)
    samples = _samples(ask)
    if ask.quick or (samples is not None and samples < HIGH) or (ask.at_hand and samples is None):
        return (one,)
    return one, _two_workers(ask)


def _whole(ask: Ask) -> int | None:
    """Training samples that there are. None: nobody has looked."""
    return ask.have if ask.at_hand else stacks.SAMPLES.get(ask.data or stacks.USUAL, stacks.GLYPHS)


def _samples(ask: Ask) -> int | None:
    """Training samples that are used."""
    quick = QUICK_OWN if _quick_own(ask) else QUICK_SAMPLES
    limit = ask.samples or (quick if ask.quick else None)
    return min((one for one in (_whole(ask), limit) if one is not None), default=None)


def _quick_own(ask: Ask) -> bool:
    """Has the quick run the number of samples that is made for it?"""
    return ask.quick and not ask.at_hand and ask.samples is None and (_whole(ask) or 0) >= QUICK_OWN


def _batches(ask: Ask) -> dict[str, tuple[int, ...]]:
    """By optimizer. A batch above the number of samples would be called what it is not."""
    if _quick_own(ask):
        return dict(QUICK)
    samples = _samples(ask)
    fit = tuple(batch for batch in EPOCHS if samples is None or batch <= samples)
    if len(fit) < 2:
        least = list(EPOCHS)[1]
        raise LaminarError(
            "L008", f"{samples} training samples are too few to compare batches of {', '.join(map(str, EPOCHS))}", hint=f"--samples {least}"
        )
    if ask.quick:
        fit = tuple(dict.fromkeys((fit[0], fit[len(fit) // 2], fit[-1])))
    return dict.fromkeys(("adam", "lamb") if ask.quick else RATES, fit)


def _one_process(ask: Ask) -> Ready:
    batches = _batches(ask)
    target = _target(ask)
    choices = [
        Choice(
            label=label(name, batch),
            settings={
                "batch": batch,
                "optimizer": name,
                "lr": RATES[name][list(EPOCHS).index(batch)],
                "epochs": epochs_of(batch, ask),
                **MOMENTUM.get(name, {}),
            },
            line=name,
        )
        for name, some in batches.items()
        for batch in some
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
                    f"Above {LINE:,} a batch stops to pay: with {name}, {some[-1]:,} takes longer than {LINE:,}.",
                    "time_to_target",
                    label(name, some[-1]),
                    label(name, LINE),
                    claim="4.a",
                )
                for name, some in batches.items()
                if LINE in some[:-1]
            ),
            *(
                below(
                    f"{other.upper()} keeps scaling: at {batches[name][-1]:,} it needs fewer steps than {name}.",
                    "steps_to_target",
                    label(other, batches[other][-1]),
                    label(name, batches[name][-1]),
                )
                for name, other in PAIRS
                if other in batches
            ),
            *(
                below(f"With {name}, larger batches need fewer steps.", "steps_to_target", label(name, some[-1]), label(name, some[0]))
                for name, some in batches.items()
            ),
        ),
        study=GRADIENTS,
        stack=stacks.mlp(ask),
        own={"samples": QUICK_OWN} if _quick_own(ask) else {},
        fixed={"target": {"accuracy": target}},
        target=target,
        warm_up=0,  # 28 of them would take as long as a repeat
        notes=("The rates were chosen for one hidden module of 128 on Fashion-MNIST.",),
    )


def _two_workers(ask: Ask) -> Ready:
    target = _target(ask)
    return Ready(
        name="batch-workers",
        title=f"Batches of {HIGH:,} against {LINE:,} on two workers, to an accuracy of {target:g}",
        question=f"Is there an optimizer with which {HIGH:,} reaches the target in {PAYS:g} of the time of {LINE:,}?",
        choices=tuple(
            Choice(
                label=label(name, batch),
                settings={
                    "workers": TEAM,
                    "batch": batch,
                    "optimizer": name,
                    "lr": rate,
                    "epochs": TEAM_EPOCHS * epochs_of(batch, ask),
                    **MOMENTUM.get(name, {}),
                },
                line=name,
            )
            for name, rates in TEAM_RATES.items()
            for batch, rate in zip((LINE, HIGH), rates, strict=True)
        ),
        measures=("time_to_target", "epochs_to_target", "samples_per_second", "accuracy"),
        statements=tuple(
            below(
                f"With {name} on two workers, {HIGH:,} reaches the target in {PAYS:g} of the time of {LINE:,}, or less.",
                "time_to_target",
                label(name, HIGH),
                label(name, LINE),
                100 * PAYS,
                claim="4.a",
            )
            for name in TEAM_RATES
        ),
        study=GRADIENTS,
        stack=stacks.mlp(ask),
        fixed={"target": {"accuracy": target}},
        target=target,
        warm_up=0,
        notes=("The rates were chosen for one hidden module of 128 on Fashion-MNIST, out of five for each optimizer and batch.",),
    )


def _target(ask: Ask) -> float:
    if ask.target is not None or ask.at_hand:
        return stacks.target_of(ask)
    if _quick_own(ask):
        return QUICK_TARGET
    return TARGET if not ask.quick and (ask.data or stacks.USUAL) == stacks.USUAL else stacks.target_of(ask)
