"""Cores 1 to 4, as threads of one process and as `sync` workers of one thread each. In the study two cores were slower than one."""

from __future__ import annotations

from laminar.experiments.ready import stacks, tables
from laminar.experiments.ready.form import Ask, Choice, Ready
from laminar.experiments.ready.judged import above, below
from laminar.experiments.ready.studies import PRACTICE


def ready(ask: Ask) -> Ready:
    most = (1, 2) if ask.quick else tuple(tables.CORES)
    one = Choice(label="1 core", settings={"workers": 1, "threads": 1}, published=tables.CORES[1])
    more = [
        Choice(label=f"{n} {kind}", settings=settings, published=tables.CORES[n], line=kind)
        for kind in ("workers", "threads")
        for n in most[1:]
        for settings in ({"workers": n, "threads": 1} if kind == "workers" else {"workers": 1, "threads": n},)
    ]
    crowded = [n for n in most if n > ask.cores]
    return Ready(
        name="cores",
        title="Cores",
        question="Is training faster on more cores, and what does it cost in loss and accuracy?",
        choices=(one, *more),
        measures=("loss", "accuracy", "seconds"),
        statements=(
            above("Two cores take longer than one: communication costs more than it saves.", "seconds", "2 workers", "1 core", claim="2.a"),
            above("Two threads take longer than one.", "seconds", "2 threads", "1 core", claim="2.a"),
            *(
                below(f"From two to four {kind} the time falls.", "seconds", f"4 {kind}", f"2 {kind}", claim="2.a")
                for kind in ("workers", "threads")
                if 4 in most
            ),
        ),
        study=PRACTICE,
        stack=stacks.mlp(ask),
        notes=(
            "The study takes the differences of loss and accuracy between numbers of cores for noise, and ignores them.",
            *(
                f"{n} cores: this machine has {ask.cores}, so {n} workers or threads take turns; these times say nothing about {n} cores."
                for n in crowded
            ),
        ),
    )
