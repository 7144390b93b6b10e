"""A worker as a process: `python -m laminar.parallel.apart.worker_process`, started by the chief. join.py has the other way to be one."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from laminar.core.clock import SYSTEM
from laminar.core.heap import keep_freed_memory
from laminar.core.seeds import derive
from laminar.parallel.apart import plan as plans
from laminar.parallel.apart.calls import Over, Server
from laminar.parallel.apart.line import Line
from laminar.parallel.apart.own_state import Attempt, OwnState
from laminar.parallel.apart.trainer import Trainer
from laminar.parallel.apart.worker_downpour import DownpourWorker
from laminar.parallel.apart.worker_rounds import RoundsWorker
from laminar.parallel.crew import read_brief, tell_error
from laminar.stack.open_job import Description
from laminar.train import borrowed
from laminar.train.strategies import Downpour


@dataclass(frozen=True)
class Did:
    """What a worker has done when it leaves."""

    worker: str
    why: str
    batches: int
    pushes: int


def work(
    told: dict[str, Any],
    name: str,
    *,
    leave: Callable[[], bool],
    named: Callable[[str], None] = lambda _: None,
    over: Callable[[], bool] = lambda: False,
    chief: str = "",
    looked: Callable[[str], None] | None = None,
) -> Did:
    """Open the job, call the servers, and train until they say that it is over, or `leave` does.

    An empty `name`: the first server finds one, and `named` hears it. `over`: has it ended, when no server is there to say so? Over is
    raised if it had before this worker began. `chief`: who that is, for one who is not its own. `looked` hears what the layer's code looks
    at.
    """
    keep_freed_memory()
    plan, attempt = plans.from_json(told["plan"]), msgspec.convert(told["attempt"], Attempt)
    job, looking = Description.from_json(told["job"]).open(looked)
    folder = Path(told["folder"]) if name else None
    addresses = told["addresses"]
    servers = [
        Server(at, told["token"], name, plan.how.timeout, room=plan.room(shard), over=over, chief=chief)
        for shard, at in enumerate(addresses)
    ]
    with borrowed.settings(told["threads"]), looking:
        trainer = Trainer(job, plan)
        try:
            welcome = servers[0].call()
            name = welcome.worker
            named(name)
            with borrowed.seeded(plan.recipe.seed if name == "0" else derive(plan.recipe.seed, "member", name)):
                own = OwnState(folder, name, attempt)
                if not isinstance(plan.how, Downpour):
                    rounds = RoundsWorker(trainer, servers[0], own, SYSTEM, leave)
                    return Did(name, _why(rounds.run), rounds.batches, rounds.pushes)
                for server in servers[1:]:  # all of them know a worker by the same name
                    server.name = name
                    server.call()
                lines = [Line(server, layout.numel) for server, layout in zip(servers, trainer.layouts, strict=True)]
                try:
                    downpour = DownpourWorker(trainer, lines, own, SYSTEM, leave)
                    return Did(name, _why(downpour.run), downpour.batches, downpour.pushes)
                finally:
                    for line in lines:
                        line.close()
        finally:
            for server in servers:
                server.close()


def _why(run: Callable[[], str]) -> str:
    try:
        return run()
    except Over:
        return "the training has ended"


def main() -> int:
    brief = read_brief()
    told_to_leave = False

    def on_signal(*_: Any) -> None:
        nonlocal told_to_leave
        told_to_leave = True

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the chief says when it is over
    signal.signal(signal.SIGUSR1, on_signal)
    try:
        torch.set_num_threads(brief.told["threads"])
        done = work(brief.told, str(brief.told["rank"]), leave=lambda: told_to_leave, looked=lambda tag: brief.say({"looked": tag}))
        brief.say({"done": done.why})
        return 0
    except Exception as error:
        tell_error(brief, f"worker {brief.told['rank']}", error)
    return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # torch's and numpy's threads need not be waited for
