"""An evaluator as a process: `python -m laminar.parallel.evaluation.evaluator_process`, started by the chief. It calls the desk that it was
told of, and tests what it is given there until nobody needs it."""

from __future__ import annotations

import math
import os
import signal
import socket
import sys
import threading
import time
from typing import Any, Final

import torch

from laminar.core.errors import LaminarError
from laminar.model.author_errors import raised_at
from laminar.parallel.crew import read_brief, tell_error
from laminar.parallel.evaluation.messages import Alive, Failed, Here, Sums
from laminar.parallel.wire.frames import Gone
from laminar.parallel.wire.link import Link
from laminar.stack.open_job import Description
from laminar.train import borrowed
from laminar.train.checkpoint import unpack
from laminar.train.evaluate import sums_of_job
from laminar.train.job import Job
from laminar.train.snapshot import changing

BEAT: Final = 1.0  # seconds between words of one that has nothing to say
CALLING: Final = 30.0  # seconds in which a desk answers
PAUSE: Final = 0.25


def main() -> int:
    brief = read_brief()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the chief says when it is over
    try:
        torch.set_num_threads(brief.told["threads"])
        job, looking = Description.from_json(brief.told["job"]).open(lambda tag: brief.say({"looked": tag}))
        with borrowed.settings(brief.told["threads"]), looking:
            serve(call(brief.told["desk"], brief.told["token"]), job)
        brief.say({"done": True})
        return 0
    except Exception as error:
        tell_error(brief, "evaluator", error)
    return 1


def call(address: str, token: str) -> Link:
    began = time.monotonic()
    while True:
        try:
            link = Link(address, token)
            link.send(Here(pid=os.getpid(), host=socket.gethostname()))
            return link
        except Gone as error:
            if time.monotonic() - began > CALLING:
                raise LaminarError(
                    "L401", f"nobody answers at {address} for {CALLING:g} s: {error}", hint="the workers test by themselves"
                ) from error
            time.sleep(PAUSE)


def serve(link: Link, job: Job) -> None:
    """Until the desk is gone."""
    speaking = threading.Lock()

    def say(message: Any) -> None:
        with speaking:
            link.send(message)

    def beat() -> None:
        while not over.wait(BEAT):
            try:
                say(Alive())
            except Gone:
                return

    over = threading.Event()
    threading.Thread(target=beat, name="laminar-beat", daemon=True).start()
    try:
        while True:
            header, data = link.receive()
            say(tested(job, int(header["number"]), bytes(data)))
    except Gone:
        return
    finally:
        over.set()
        link.close()


@torch.no_grad()
def tested(job: Job, number: int, data: bytes) -> Sums | Failed:
    """What the job's model gives on the test split, with these tensors."""
    tensors, _ = unpack(data)
    for name, tensor in changing(job):
        tensor.copy_(tensors[name])
    try:
        return Sums(number=number, sums=[one if math.isfinite(one) else None for one in sums_of_job(job)])
    except LaminarError as error:
        return Failed(number=number, code=error.code, message=error.message, hint=error.hint)
    except Exception as error:
        place, what = raised_at(error), f"{type(error).__name__}: {str(error).strip() or 'no message'}"
        message = f"the model failed in the test of an epoch{place and ', ' + place}: {what}"
        return Failed(number=number, code="L606", message=message, hint="correct the model's forward(); --debug shows the whole traceback")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # torch's and numpy's threads need not be waited for
