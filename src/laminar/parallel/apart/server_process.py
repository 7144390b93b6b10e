"""A server as a process: `python -m laminar.parallel.apart.server_process`, started by the chief (chief.py) and by nobody else."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch

from laminar.core.clock import SYSTEM
from laminar.parallel.apart import plan as plans
from laminar.parallel.apart.report import Report
from laminar.parallel.apart.server import Server
from laminar.parallel.crew import read_brief, tell_error
from laminar.parallel.wire.hub import Hub


def main() -> int:
    brief = read_brief()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the chief says when it is over
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    told = brief.told
    try:
        torch.set_num_threads(1)
        plan = plans.from_json(told["plan"])
        shard = int(told["rank"])
        hub = Hub(told["address"], told["token"], payload_limit=plan.room(shard)[0])
        report = Report(brief.say, hub, SYSTEM, first=not shard)
        server = Server(plan, shard, Path(told["folder"]), hub, report, SYSTEM, again=told["again"])
        brief.say({"listening": hub.address})
        server.serve()
    except Exception as error:
        tell_error(brief, f"server {told['rank']}", error)
    return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
