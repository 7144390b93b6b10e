"""Ask a cluster for workers and say what they are like: versions, cores, memory, distances, clocks, and whether they see this folder.

Nothing is trained. With several workers each pair is measured, ten workers at most. Exit code 4 if something is wrong.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.cluster_options import On, StartTimeout, other_rank, place
from laminar.cli.output import Json, print_json, remark, say, seconds, table


def run(
    on: On = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Workers to ask for.")] = 2,
    start_timeout: StartTimeout = None,
    json: Json = False,
) -> None:
    if other_rank(on):
        return
    from laminar.launch.check import check
    from laminar.launch.choose import launcher_of
    from laminar.launch.local_agents import LocalAgents
    from laminar.launch.switchboard import STARTING

    launcher = launcher_of(place(on)) or LocalAgents()
    report = check(launcher, launcher.fixed or workers, Path.cwd(), starting=start_timeout or STARTING)
    if json:
        print_json(dataclasses.asdict(report))
    else:
        table(
            "",
            ["worker", "host", "cores", "memory", "laminar", "torch", "python", "from here", "clock", "sees this folder"],
            [
                [
                    str(worker.slot),
                    worker.host,
                    str(worker.cores),
                    f"{worker.memory / 1e9:.1f} GB" if worker.memory is not None else "-",
                    worker.laminar,
                    worker.torch or "none",
                    worker.python,
                    f"{1e3 * worker.round_trip:.1f} ms",
                    f"{worker.skew:+.2f} s",
                    "yes" if worker.sees_project else "no",
                ]
                for worker in report.workers
            ],
            right=["worker", "cores", "memory", "from here", "clock"],
        )
        if report.distances:
            table(
                "",
                ["between", "there and back", "bandwidth"],
                [
                    [f"{pair.first} and {pair.second}", f"{1e3 * pair.latency:.2f} ms", f"{pair.bandwidth / 1e6:,.0f} MB/s"]
                    for pair in report.distances
                ],
                right=["there and back", "bandwidth"],
            )
        say(f"{len(report.workers)} of {report.wanted} workers on {report.on} were here after {seconds(report.seconds)}")
        for problem in report.problems:
            remark(problem)
    if report.problems:
        raise typer.Exit(4)
