"""A member of a team, as a process: `python -m laminar.parallel.sync.member`, started by the chief (chief.py) and by nobody else."""

from __future__ import annotations

import os
import signal
import socket
import sys

import torch

from laminar.core.errors import LaminarError
from laminar.core.events import nowhere
from laminar.parallel.crew import CALLED_OFF, Brief, read_brief
from laminar.parallel.meeting import Broken
from laminar.parallel.segment import Segment
from laminar.parallel.sync.chief import layout_of
from laminar.parallel.sync.shared_team import SharedTeam
from laminar.stack.open_job import Description
from laminar.train.loop import train


def main() -> int:
    brief = read_brief()
    rank = int(brief.told["rank"])
    if rank:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # member 0 is told, and stops all after the same step
    team: SharedTeam | None = None
    try:
        torch.set_num_threads(brief.told["threads"])
        job = Description.from_json(brief.told["job"]).open()
        layout = layout_of(job, brief.told["size"])
        team = job.team = SharedTeam(Segment(brief.told["segment"], brief.told["bytes"]), layout, rank)
        team.meeting.meet()
        if not rank:
            host = socket.gethostname()
            job.announce = [{"role": "worker", "rank": r, "pid": pid, "host": host} for r, pid in enumerate(team.pids)]
        trained = train(job, nowhere if rank else brief.say)
        brief.say({"done": _as_json(trained) if not rank else True})
        return 0
    except Broken:
        return CALLED_OFF
    except KeyboardInterrupt:
        return 130
    except LaminarError as error:
        _fail(brief, team, rank, error)
    except Exception as error:
        import traceback

        traceback.print_exc()
        _fail(brief, team, rank, LaminarError("L900", f"a bug in Laminar: {type(error).__name__}: {error}", hint="laminar doctor"))
    return 1


def _fail(brief: Brief, team: SharedTeam | None, rank: int, error: LaminarError) -> None:
    brief.say({"error": {"code": error.code, "message": f"worker {rank}: {error.message}", "hint": error.hint}})
    if team is not None:
        team.meeting.call_off()


def _as_json(trained: object) -> dict[str, object]:
    return dict(vars(trained))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # torch's and numpy's threads need not be waited for
