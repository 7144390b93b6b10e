"""The process that trains trials, one after the other: `python -m laminar.experiments.trial_child`. It loads torch once for all of them.

It is asked by lines of JSON on its standard input and answers by lines on a pipe of its own; what a model prints goes to standard error.
When its input ends, the runner is gone: the trial under way keeps a checkpoint, and this process ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.events import Event
from laminar.core.heap import keep_freed_memory
from laminar.experiments.heard import events_of, hear
from laminar.stack.build import build
from laminar.stack.parents import resolve
from laminar.stack.plan import decide, run_of
from laminar.stack.read import StackFile, parent_of
from laminar.store.store import Store
from laminar.train import checkpoint
from laminar.train.history import EVENTS
from laminar.train.strategies import Solo, Sync, strategy

GRACE: Final = 60.0  # seconds to write a checkpoint when the runner is gone
STARTING: Final = 300.0  # seconds that a cluster may take: nobody sits and waits
TOLD: Final = ("layer", "start", "resume", "step", "epoch", "waiting", "note", "features", "data", "worker")
Say = Callable[[dict[str, Any]], None]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One trial."""

    file: dict[str, Any]  # of StackFile.to_json
    store: str
    layer: str
    again: bool  # train it even if it is in the store: time is measured
    until: int | None = None  # stop after so many epochs, keeping a checkpoint
    on: str | None = None  # where its workers run
    like: str | None = None  # a layer of the same model, whose graph need not be exported again


def main() -> None:
    pipe = int(sys.argv[1])
    requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    busy = threading.Event()

    def say(message: dict[str, Any]) -> None:
        line = msgspec.json.encode(message) + b"\n"  # a figure that is not finite becomes null
        while line:
            line = line[os.write(pipe, line) :]

    def listen() -> None:
        for line in sys.stdin.buffer:
            requests.put(line)
        requests.put(None)
        if busy.is_set():  # as after Ctrl-C
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(GRACE)
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    keep_freed_memory()
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        import laminar.stack.train_layer  # noqa: F401 - loads torch, which is no part of any trial's time

        say({"ready": os.getpid()})
        with _cluster() as cluster:
            while (line := requests.get()) is not None:
                busy.set()
                say(_answer(line, say, cluster))
                busy.clear()


def _answer(line: bytes, say: Say, cluster: Callable[[str | None], Any]) -> dict[str, Any]:
    """The worker loop's edge: whatever goes wrong is an answer."""
    try:
        return train(msgspec.json.decode(line, type=Asked), say, cluster)
    except KeyboardInterrupt:
        return {"interrupted": True}
    except LaminarError as error:
        return {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
    except Exception as error:
        traceback.print_exc()
        return {"error": {"code": "L900", "message": f"{type(error).__name__}: {error}", "hint": "laminar doctor"}}


def train(asked: Asked, say: Say, cluster: Callable[[str | None], Any]) -> dict[str, Any]:
    """Build what the layer stands on, then the layer, and tell what came of it."""
    file, store = StackFile.from_json(asked.file), Store.open(Path(asked.store), create=False)
    layer = next(one for one in file.spec.layer if one.name == asked.layer)
    how = cluster(asked.on)
    if how is not None and isinstance(strategy(layer.train.strategy), Solo):
        file = _by_one_worker(file, asked.layer)
        layer = next(one for one in file.spec.layer if one.name == asked.layer)
    below = parent_of(file.spec, layer)
    if any(one.name == below for one in file.spec.layer):
        report = build(file, store, targets=[str(below)], emit=_teller(say, ""), named=False)
        parent: str | None = report.layers[-1].id
    else:
        parent = resolve(file, store, layer, below)
    step = decide(file, store, layer, parent)
    assert step.key is not None
    folder = store.layout.run(run_of(store, step.key, again=asked.again))
    if asked.again:
        checkpoint.remove(folder)  # of a trial that was cut short: time is measured in one go
    stopping = threading.Event()
    begun, start = time.time(), time.perf_counter()
    try:
        report = build(
            file,
            store,
            targets=[asked.layer],
            force=asked.again,
            emit=_teller(say, asked.layer, asked.until, stopping),
            how=how,
            named=False,
            like=asked.like,
        )
    except KeyboardInterrupt:
        if not stopping.is_set():
            raise
        heard = hear(events_of(folder / EVENTS))
        wall = time.perf_counter() - start
        last = heard.curve[-1] if heard.curve else None
        metrics = {} if last is None else {"loss": last.test_loss, "accuracy": last.test_accuracy}
        return {
            "stopped": {
                "started": begun,
                "wall": wall,
                "seconds": last.seconds if last else 0.0,
                "metrics": {name: value for name, value in metrics.items() if value is not None} | heard.metrics,
                "curve": msgspec.to_builtins(heard.curve),
                "run": folder.name,
            }
        }
    built = report.layers[-1]
    wall = time.perf_counter() - start
    record = store.record(built.key)
    assert record is not None
    heard = hear(events_of(store.layout.run(record.run) / EVENTS))
    size = {"parameters": float(record.provenance["parameters"])} if "parameters" in record.provenance else {}
    return {
        "done": {
            "started": begun,
            "wall": wall,
            "seconds": record.seconds,
            "metrics": {name: value for name, value in (heard.metrics | size | built.metrics).items() if math.isfinite(value)},
            "curve": msgspec.to_builtins(heard.curve),
            "series": msgspec.to_builtins(heard.series),
            "team": built.team,
            "layer": built.id,
            "run": record.run,
            "reused": built.action == "cached",
            "spent": built.spent,
            "resumed": heard.resumed and built.action == "built",
        }
    }


def _by_one_worker(file: StackFile, name: str) -> StackFile:
    """A cluster has workers, and one of them learns what one process learns (it is in no key)."""
    import dataclasses

    layers = [
        msgspec.structs.replace(one, train=msgspec.structs.replace(one.train, strategy=Sync(workers=1))) if one.name == name else one
        for one in file.spec.layer
    ]
    return dataclasses.replace(file, spec=msgspec.structs.replace(file.spec, layer=layers))


def _teller(say: Say, layer: str, until: int | None = None, stopping: threading.Event | None = None) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        if event["event"] in TOLD:
            say({"event": event})
        if until is None or stopping is None or event["event"] != "epoch" or event.get("layer") != layer:
            return
        if until <= event["epoch"] + 1 < event.get("epochs", until + 1):
            stopping.set()
            os.kill(os.getpid(), signal.SIGINT)  # training ends as it does at Ctrl-C: with a checkpoint

    return tell


@contextlib.contextmanager
def _cluster() -> Iterator[Callable[[str | None], Any]]:
    """Where workers run, made when it is first asked for and kept until the end: engines take seconds to start."""
    with contextlib.ExitStack() as held:
        made: dict[str, Any] = {}

        def cluster(on: str | None) -> Any:
            if on in (None, "local"):
                return None
            assert on is not None
            if on not in made:
                from laminar.launch.choose import launcher_of
                from laminar.launch.on_cluster import OnCluster

                launcher = launcher_of(on)
                assert launcher is not None
                made[on] = held.enter_context(OnCluster(launcher, starting=STARTING))
            return made[on]

        yield cluster


if __name__ == "__main__":
    main()
