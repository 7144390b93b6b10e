"""A worker of the soak test, as a process: pushes updates that can be told apart, and writes down which ones were acknowledged.

Its brief: the plan, the servers' addresses, its number. Update n of worker w is 1 at place w * PLACES + n, on every server.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

from laminar.parallel.apart import plan as plans
from laminar.parallel.apart.calls import Server
from laminar.parallel.apart.line import Line
from laminar.parallel.apart.messages import Push
from laminar.parallel.crew import read_brief

PLACES = 2000  # updates of one worker


def main() -> None:
    told = read_brief().told
    torch.set_num_threads(1)
    plan, number = plans.from_json(told["plan"]), int(told["rank"])
    servers = [Server(at, told["token"], str(number), 60.0, room=plan.room(shard)) for shard, at in enumerate(told["addresses"])]
    for server in servers:
        server.call()
    lines = [Line(server, plan.layout(shard).numel) for shard, server in enumerate(servers)]
    compressors = [plan.compressor(shard) for shard in range(len(lines))]
    with open(Path(told["folder"]) / f"acknowledged-{number}", "a") as log:
        for n in range(PLACES):
            for shard, line in enumerate(lines):
                line.settle()
                grad = torch.zeros(plan.layout(shard).numel)
                grad[number * PLACES + n] = -1.0
                packet = compressors[shard].encode(grad, epoch_progress=0.0)
                push = Push(sequence=0, base=0, work=1.0, batches=1, packet=packet.nbytes, fetch=n % 4 == 0)
                line.push(push, packet.data, b"")
            log.write("".join(f"{shard} {line.acknowledged}\n" for shard, line in enumerate(lines)))
            log.flush()
            time.sleep(told["pause"])


if __name__ == "__main__":
    main()
    os._exit(0)
