"""Options that choose where workers run, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from laminar.core.errors import LaminarError
from laminar.stack.read import StackFile
from laminar.store.store import Store
from laminar.train.on_grid import Grid
from laminar.train.strategies import Solo, strategy

if TYPE_CHECKING:
    from laminar.grid.train import OnGrid
    from laminar.launch.on_cluster import OnCluster

On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="WHERE",
        help="Where workers run: local, ray, ray://HOST:10001, spark, spark://HOST:7077, env (torchrun, Slurm), or grid://HOST:8787.",
    ),
]
StartTimeout = Annotated[
    float | None, typer.Option("--start-timeout", metavar="SECONDS", min=1, help="How long a cluster may take to start the workers.")
]


def place(on: str | None) -> str:
    """What is meant where nothing is said: torchrun and srun say by the environment that there are several of us."""
    if on is not None:
        return on
    started = "TORCHELASTIC_RUN_ID" in os.environ or "SLURM_STEP_NUM_TASKS" in os.environ
    if started:
        from laminar.launch.environment import place_of

        return "env" if place_of(os.environ) is not None else "local"
    return "local"


def other_rank(on: str | None) -> bool:
    """Was this command started as one of the workers of a chief? Then it is one, until that is over."""
    if place(on) != "env":
        return False
    from laminar.launch.environment import be_an_agent, need_place

    own = need_place(os.environ)
    if not own.rank:
        return False
    if why := be_an_agent(own):
        raise LaminarError("L407", f"rank {own.rank}: {why}", hint="look at what rank 0 says")
    return True


@contextmanager
def cluster(
    file: StackFile, store: Store, on: str | None, starting: float | None, options: Mapping[str, Any] | None = None
) -> Iterator[OnCluster | OnGrid | None]:
    """What `build` takes for `how`, and who is to hear what will be trained; None: workers are processes of this machine."""
    chosen = place(on)
    if chosen == "local":
        yield None
        return
    if chosen == "grid" or chosen.startswith(("grid://", "grids://")):
        yield _grid(file, store, chosen)
        return
    from laminar.launch.choose import launcher_of
    from laminar.launch.switchboard import STARTING

    launcher = launcher_of(chosen)
    assert launcher is not None
    alone = [layer.name for layer in file.spec.layer if isinstance(strategy(layer.train.strategy), Solo)]
    if alone:
        number = launcher.fixed or 2
        raise LaminarError(
            "L008",
            f"--on {chosen}: layer {alone[0]} is trained by one process, which needs no cluster",
            hint=f"--workers {number}, or a strategy in its train",
        )
    from laminar.launch.on_cluster import OnCluster

    with OnCluster(launcher, starting=starting or STARTING, options=options) as how:
        yield how


def _grid(file: StackFile, store: Store, where: str) -> OnGrid:
    if not any(isinstance(layer.train.strategy, Grid | str) and strategy(layer.train.strategy).kind == "grid" for layer in file.spec.layer):
        raise LaminarError(
            "L008",
            f'--on {where}: no layer of {file.path.name} has strategy = {{ kind = "grid" }}',
            hint="laminar grid train LAYER, or --strategy grid",
        )
    from laminar.grid.extra import need_grid

    need_grid()
    from laminar.grid.commander import commander_of
    from laminar.grid.train import OnGrid
    from laminar.parallel.run import run

    return OnGrid(commander_of(store.root / "grid", None if where == "grid" else where), run)
