"""A member of a team, as a process: started by the chief (team_chief.py) and by nobody else. What differs is how it finds its team."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

import torch

from laminar.core import interrupts
from laminar.core.events import nowhere
from laminar.core.heap import keep_freed_memory
from laminar.parallel.crew import CALLED_OFF, OWN_ADDRESS, read_brief, tell_error
from laminar.parallel.evaluation.desk import Desk
from laminar.parallel.meeting import Broken, precise_naps
from laminar.stack.open_job import Description
from laminar.train.job import Job
from laminar.train.loop import train
from laminar.train.team import Team

LOOPBACK: Final = "127.0.0.1"

T = TypeVar("T", bound=Team)


def be_member(join: Callable[[Job, dict[str, Any], int], T], after: Callable[[T], dict[str, Any] | None] | None = None) -> int:
    """`join(job, told, rank)`: the team, all of which have come. `after`: by all once training has ended; what member 0 tells of it.
    The exit code."""
    brief = read_brief()
    told = brief.told
    rank = int(told["rank"])
    # Member 0 is told, and stops all after the same step; also where Ctrl-C is ignored, as a script's jobs in the background do.
    signal.signal(signal.SIGINT, signal.SIG_IGN if rank else signal.default_int_handler)
    precise_naps()
    keep_freed_memory()
    try:
        interrupts.hear()
        torch.set_num_threads(told["threads"])
        job, looking = Description.from_json(told["job"]).open(lambda tag: brief.say({"looked": tag}))
        if "desk" in told and not rank:
            own_host = os.environ.get(OWN_ADDRESS, LOOPBACK)
            job.tester = desk = Desk(told["desk"]["address"] or f"{own_host}:0", told["desk"]["token"], told["timeout"])
            brief.say({"desk": desk.address})
        team = join(job, told, rank)
        job.team = team
        own = {"role": "worker", "rank": rank, "pid": os.getpid(), "host": socket.gethostname()}
        job.announce = [json.loads(one) for one in team.gather(json.dumps(own).encode())]
        job.earlier = told["notes"]
        with looking:
            trained = train(job, nowhere if rank else brief.say)
        if after is not None and (event := after(team)) is not None:
            brief.say(event)
        brief.say({"done": vars(trained) if not rank else True})
        return 0
    except Broken:
        return CALLED_OFF
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        tell_error(brief, f"worker {rank}", error)
        return 1


def leave(code: int) -> NoReturn:
    """torch's and numpy's threads need not be waited for."""
    sys.stdout.flush()
    os._exit(code)
