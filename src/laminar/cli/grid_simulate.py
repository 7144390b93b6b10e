"""A population of desktops on virtual time, against the server's real code: so many, so unreliable, so hostile; what would come of it?

Something small is really learned (points of several clouds), so that lies show in the accuracy. The same seed is the same trace.
"""

from __future__ import annotations

import re
from typing import Annotated

import typer

from laminar.cli.grid_look import PARTS, parts
from laminar.cli.output import Json, number, print_json, remark, say, seconds, table
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean

FEW = 200  # nodes, which are simulated as they are: they ask again when a request has been held for WAIT seconds
WAIT = 20.0


def run(
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=1_000_000)] = 1000,
    hours: Annotated[float, typer.Option("--hours", min=0.1, help="Of virtual time.")] = 24.0,
    churn: Annotated[str, typer.Option("--churn", metavar="KIND", help="desktop, lab, wild or steady.")] = "desktop",
    speeds: Annotated[
        str | None, typer.Option("--speeds", metavar="LIST", help="Of the nodes, in turn, as 4,4,4,4,1; else as the churn has them.")
    ] = None,
    adversaries: Annotated[str, typer.Option("--adversaries", metavar="SHARE", help="Of the nodes, as 5%.")] = "0%",
    lies: Annotated[list[str] | None, typer.Option("--lie", metavar="KIND", help="Only this kind of liar; may be repeated.")] = None,
    tasks: Annotated[int | None, typer.Option("--workers", min=1, help="Tasks of a round; one for every twenty nodes.")] = None,
    mode: Annotated[str, typer.Option("--mode", metavar="MODE", help="rounds or async.")] = "rounds",
    quorum: Annotated[float, typer.Option("--quorum", metavar="SHARE", help="Of a round's tasks, whose answers close it.")] = 0.8,
    late: Annotated[str, typer.Option("--late", metavar="WHAT", help="What comes after its round: age or drop.")] = "age",
    minutes: Annotated[
        float, typer.Option("--task-minutes", min=0.1, help="That a task takes a node of speed 1, the middling one.")
    ] = 30.0,
    replicate: Annotated[str, typer.Option("--replicate", metavar="WHEN", help="adaptive, always or never.")] = "adaptive",
    robust: Annotated[str, typer.Option("--robust", metavar="RULE", help="mean, clip, trimmed or median.")] = "clip",
    seed: Annotated[int, typer.Option("--seed")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    json: Json = False,
) -> None:
    from laminar.grid.extra import need_grid

    need_grid()
    import msgspec
    import torch

    from laminar.grid.daemons.learner import TorchLearner
    from laminar.grid.population import churn as churns
    from laminar.grid.population.behaviour import KINDS
    from laminar.grid.population.simulate import RETRY, Plan, Simulation
    from laminar.train.on_grid import Grid

    share = re.fullmatch(r"(\d+(?:\.\d+)?)%", adversaries)
    if not share or float(share[1]) > 100:
        raise LaminarError("L008", f"--adversaries {adversaries}: expected a share of the nodes", hint="--adversaries 5%")
    if churn not in churns.KINDS:
        raise LaminarError("L008", f"--churn {churn}: {did_you_mean(churn, churns.KINDS)}", hint="--churn desktop")
    for lie in lies or []:
        if lie not in KINDS[1:]:
            raise LaminarError("L008", f"--lie {lie}: {did_you_mean(lie, KINDS[1:])}", hint=f"one of {', '.join(KINDS[1:])}")
    try:
        given = tuple(float(one) for one in speeds.split(",")) if speeds is not None else ()
    except ValueError:
        given = (0.0,)
    if not all(0 < one < 1e6 for one in given):
        raise LaminarError("L008", f"--speeds {speeds}: expected speeds above 0, with commas between them", hint="--speeds 4,4,4,4,1")
    told = {
        "kind": "grid",
        "workers": tasks or max(4, nodes // 20),
        "rounds": 1_000_000,
        "local_steps": 5,
        "deadline": 7200.0,
        "lease": 14400.0,
    }
    try:
        more = {"mode": mode, "quorum": quorum, "late": late, "replicate": replicate, "robust": robust}
        grid = msgspec.convert({**told, **more}, Grid)
    except (msgspec.ValidationError, ValueError) as error:
        raise LaminarError("L008", str(error), hint="laminar grid simulate --help") from None
    torch.set_num_threads(1)
    plan = Plan(
        nodes=nodes,
        hours=hours,
        churn=churn,
        adversaries=float(share[1]) / 100,
        lies=tuple(lies or KINDS[1:]),
        seed=seed,
        task_minutes=minutes,
        speeds=given,
        retry=WAIT if nodes <= FEW else RETRY,
        grid=grid,
    )

    def tell(done: float, version: int, events: int) -> None:
        if not quiet:
            remark(f"{done:4.0%}  version {version}, {events} events")

    report = Simulation(plan, TorchLearner()).run(tell)
    if json:
        print_json(report.to_json())
        return
    made = f"{report.versions} versions, {report.answers} answers, accuracy {number(report.accuracy)}"
    say(f"{nodes} nodes, {hours:g} h in {seconds(report.seconds)}: {made}")
    if report.utilization["seconds"]:
        shares = ", ".join(f"{part} {share}" for part, share in zip(PARTS, parts(report.utilization), strict=True))
        say(f"time of nodes that are on: {shares}")
    say("refused: " + (", ".join(f"{what} {count}" for what, count in report.refused.items()) or "nothing"))
    table(
        "",
        ["kind", "nodes", "banned", "refused"],
        [
            [kind, str(of), str(banned), ", ".join(f"{why} {count}" for why, count in report.how[kind].items())]
            for kind, (banned, of) in report.caught.items()
        ],
        right=["nodes", "banned"],
    )
    say(f"trace {report.trace[:16]} (the same for the same options)")
