"""A worker of a mesh: opens the job, keeps its parts of the model, and runs the loop of one process with its team."""

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
from laminar.parallel.split.grid import Grid
from laminar.parallel.split.kernels import Here
from laminar.parallel.split.lines import join
from laminar.parallel.split.module import split_model
from laminar.parallel.split.place import Placed
from laminar.parallel.split.team import SplitTeam
from laminar.stack.open_job import Description
from laminar.train.job import Route
from laminar.train.loop import train
from laminar.train.snapshot import frozen_state
from laminar.train.splitting import Mesh
from laminar.train.strategies import strategy


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
        how = strategy(job.recipe.strategy)
        assert isinstance(how, Mesh)
        grid = Grid(how.mesh)
        training, judging = Placed.from_json(told["training"]), Placed.from_json(told["judging"])
        job.frozen_told = frozen_state(job)  # of whole tensors, before they are parts
        lines = join(told["link"], grid, rank, told["timeout"])
        here = Here(grid.mesh, grid.at(rank), lines)
        module, parts, partial = split_model(job.model, training, judging, here)
        job.fit, job.test = Route(module, job.fit_route.inputs), Route(module, job.test_route.inputs)
        team = job.team = SplitTeam(grid, rank, lines, module, parts, partial, how.split.get("batch"))
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
