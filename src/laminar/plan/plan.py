"""Plan: a strategy with its degrees, and what is predicted of it. Plain data, which can be pasted into a stack file. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from laminar.plan.tasks import Ran
from laminar.train.strategies import AnyStrategy

SHOWN: Final = 8  # entries of a table that are named in one line; of more, only the first ones
FIRST: Final = 2
ALWAYS: Final = ("workers",)  # said even where it is the default
WORDS: Final[dict[str, str]] = {
    "load": "gathering samples",
    "forward": "forward",
    "backward": "backward",
    "inputs": "backward (inputs)",
    "weights": "backward (weights)",
    "exchange": "exchanging tensors",
    "pack": "packing gradients",
    "transfer": "sending from stage to stage",
    "optimizer": "the optimizer and the loop",
    "server": "servers",
    "wait": "waiting",
    "computing": "computing",
    "waiting": "waiting for servers and others",
}


@dataclass(frozen=True)
class Plan:
    """`step_seconds` is the time in which a batch is behind the whole team, also where workers have batches of their own: so strategies can
    be compared, and held against the samples per second that a run tells of."""

    strategy: AnyStrategy
    batch: int
    step_seconds: float
    raw_seconds: float  # before the corrections of the ledger
    factor: float  # samples that it takes to the target, relative to one process with the recipe's batch
    steps: float  # batches to the target
    memory_bytes: int  # of the worker that has most, while it trains
    bytes_per_step: int  # of all workers together, for a batch
    threads: int = 1  # of each worker, as the executor would have it; on a grid that is up to each desktop
    staleness: float = 0.0  # steps that a gradient is old when it is used, on average
    idle: float = 0.0  # share of the workers' time
    same_result: bool = True  # as one process
    node_memory_bytes: int = 0  # of all processes on the node that needs most, the chief and servers included, at its fullest
    testing: float = 0.0  # seconds of tests between epochs, and after the last, over the whole training
    start: float = 0.0  # seconds until workers have begun, once
    beat: float = 1.0  # batches that are behind the team from one meeting of its workers to the next
    spent: dict[str, float] = field(default_factory=dict)  # seconds of the critical path, by kind of work
    ran: tuple[Ran, ...] = ()
    resources: dict[int, str] = field(default_factory=dict)
    drawn: bool = False  # it has a timeline, which is too long to be kept: whoever wants it prices the plan again
    standing: dict[int, int] = field(default_factory=dict)  # bytes that each worker always has; beside them, what `ran` takes and gives

    @property
    def kind(self) -> str:
        return self.strategy.kind

    @property
    def workers(self) -> int:
        return self.strategy.workers

    @property
    def seconds_to_target(self) -> float:
        return self.start + self.step_seconds * self.steps + self.testing

    @property
    def name(self) -> str:
        """In one line, as the command line takes it; but for tables of many modules, which only `written` has whole."""
        settings = {key: value for key, value in written(self.strategy).items() if key != "kind"}
        return self.kind + (":" + ",".join(f"{key}={_plain(value)}" for key, value in settings.items()) if settings else "")

    @property
    def why(self) -> str:
        """What the critical path of a step is made of, the longest first."""
        total = sum(self.spent.values()) or 1.0
        parts = sorted(self.spent.items(), key=lambda one: -one[1])[:3]
        return ", ".join(f"{WORDS.get(kind, kind)} {100 * spent / total:.0f} %" for kind, spent in parts if spent > 0.005 * total)

    def to_json(self) -> dict[str, Any]:
        return {
            "strategy": written(self.strategy),
            "workers": self.workers,
            "batch": self.batch,
            "threads": self.threads,
            "step_seconds": self.step_seconds,
            "seconds_to_target": self.seconds_to_target,
            "steps": self.steps,
            "start_seconds": self.start,
            "test_seconds": self.testing,
            "memory_bytes": self.memory_bytes,
            "node_memory_bytes": self.node_memory_bytes,
            "bytes_per_step": self.bytes_per_step,
            "staleness": self.staleness,
            "idle": self.idle,
            "same_result": self.same_result,
            "spent": self.spent,
            "why": self.why,
        }


def written(strategy: AnyStrategy) -> dict[str, Any]:
    """As a stack file has it: what is not the default."""
    found = msgspec.to_builtins(strategy)
    defaults = {one.encode_name: _default(one) for one in msgspec.structs.fields(strategy)}
    return {
        key: value
        for key, value in found.items()
        if key == "kind" or (key in ALWAYS and strategy.workers > 1) or key not in defaults or value != defaults[key]
    }


def _default(one: msgspec.structs.FieldInfo) -> Any:
    return one.default if one.default_factory is msgspec.NODEFAULT else one.default_factory()


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        said = [f"{_key(key)}={_plain(one)}" for key, one in value.items()]
        return "{" + ",".join(said if len(said) <= SHOWN else [*said[:FIRST], f"… {len(said) - FIRST} more"]) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_plain, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _key(key: str) -> str:
    return key if key.isidentifier() else f'"{key}"'
