"""A member of a team, as a process: `python -m laminar.parallel.sync.member`, started by the chief (chief.py) and by nobody else."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

import torch

from laminar.core.events import nowhere
from laminar.parallel.crew import CALLED_OFF, read_brief, tell_error
from laminar.parallel.meeting import Broken, precise_naps
from laminar.parallel.sync.links import join
from laminar.stack.open_job import Description
from laminar.train.loop import train


def main() -> int:
    brief = read_brief()
    told = brief.told
    rank = int(told["rank"])
    if rank:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # member 0 is told, and stops all after the same step
    precise_naps()
    try:
        torch.set_num_threads(told["threads"])
        job = Description.from_json(told["job"]).open()
        team = job.team = join(told["link"], job, rank, told["size"], told["timeout"])
        own = {"role": "worker", "rank": rank, "pid": os.getpid(), "host": socket.gethostname()}
        job.announce = [json.loads(one) for one in team.gather(json.dumps(own).encode())]
        trained = train(job, nowhere if rank else brief.say)
        brief.say({"done": vars(trained) if not rank else True})
        return 0
    except Broken:
        return CALLED_OFF
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        tell_error(brief, f"worker {rank}", error)
        return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # torch's and numpy's threads need not be waited for
