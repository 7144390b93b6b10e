"""A circuit executed on arrays.

    account = run_circuit(circuit, call, arrays, values, count, threads=2)

`call` runs one kernel for a range of instances: natively (compile/native.py), or by any other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from laminar.kernels.arguments import DTYPES
from laminar.kernels.circuit.apart import Pairs
from laminar.kernels.circuit.build import Circuit
from laminar.kernels.circuit.estimate import Estimates
from laminar.kernels.circuit.function import GUARD, TEST, changed_values
from laminar.kernels.circuit.guess import Account, Odds
from laminar.kernels.circuit.issue import GRAIN, Issue
from laminar.kernels.circuit.pool import pool
from laminar.kernels.circuit.schedule import Chunk, Schedule, Task
from laminar.kernels.language.tree import Constant, Kernel, Object, Variable

SHORTEST: Final = 300e-6  # seconds of instances that are a task
WINDOW: Final = 32  # tasks for each thread that are open at once

Call: TypeAlias = Callable[[Kernel, Chunk, int, Sequence[NDArray[np.generic]], Mapping[str, float]], None]


@dataclass
class Executor:
    """What tasks are executed with: the run's arrays and values, and the way to run a kernel."""

    call: Call
    arrays: Mapping[str, NDArray[np.generic]]
    values: Mapping[str, float]
    count: int
    everyone: NDArray[np.generic] = field(init=False)

    def __post_init__(self) -> None:
        self.everyone = np.ones(self.count, np.bool_)

    def __call__(self, task: Task) -> dict[str, NDArray[np.generic]]:
        """Results of a task, in arrays of their own, of which only the task's chunk is touched."""
        function, results = task.function, dict[str, NDArray[np.generic]]()
        given: list[NDArray[np.generic]] = []
        for parameter in function.kernel.arrays:
            assert isinstance(parameter.of, Object)
            name = parameter.name
            if name == GUARD and task.guard is not None:
                guard = self.everyone if task.on_guess else task.guard.value
                given.append(guard if guard is not None else self.everyone)
            elif name in function.takes:
                value = task.takes[name].value
                given.append(value if value is not None else np.zeros(self.count, DTYPES[parameter.of.type]))
            elif name in function.gives or name == TEST:
                results[name] = np.zeros(self.count, DTYPES[parameter.of.type])
                given.append(results[name])
            else:
                given.append(self.arrays[name])
        values = {**self.values, **task.values} if task.values else self.values
        self.call(function.kernel, task.chunk, self.count, given, values)
        return results


def run_circuit(
    circuit: Circuit,
    call: Call,
    arrays: Mapping[str, NDArray[np.generic]],
    values: Mapping[str, float],
    count: int,
    *,
    threads: int = 1,
    guess: bool = True,
    odds: Odds | None = None,
    pairs: Pairs | None = None,
    grain: float = GRAIN,
) -> Account:
    """Changes the arrays. `odds`: what earlier runs of this circuit told. `grain`: seconds that a task should take."""
    odds, pairs = odds or Odds(), pairs or Pairs(circuit)
    given = {**arrays, **{name: _added(circuit, name, count) for name in circuit.added}}
    apart = pairs.may_be_chunked(values, count)
    if count > 1 and not apart:  # instances that may meet run in order
        call(circuit.kernel, (0, count), count, [given[one.name] for one in circuit.kernel.arrays], values)
        return Account()
    known = known_values(circuit.kernel, values, count)
    estimates = odds.estimate(known)
    start = {one: np.full(count, values[name], DTYPES[one.type]) for one, name in changed_values(circuit.kernel).items()}
    schedule = Schedule(odds, guess=guess and threads > 1, window=WINDOW * threads)
    decide = pairs.apart(values, count)

    def tasks() -> Iterator[None]:
        for chunk in chunks(circuit, count, threads, odds, estimates):
            yield from Issue(circuit, schedule, chunk, count, known, decide, pairs, estimates, threads, grain).whole(start)

    schedule.source = tasks()
    pool().run(schedule, Executor(call, given, values, count), threads)
    odds.ended()
    schedule.account.runs = 1
    return schedule.account


def known_values(kernel: Kernel, values: Mapping[str, float], count: int) -> dict[Variable, float]:
    known: dict[Variable, float] = {one.of: values[one.name] for one in kernel.values if isinstance(one.of, Variable)}
    return {**known, kernel.count: count}


def chunks(circuit: Circuit, count: int, threads: int, odds: Odds, estimates: Estimates) -> list[Chunk]:
    """Instances that go together: as many as make a task long enough, and no more than leave each thread some."""
    if count <= 1 or threads <= 1:
        return [(0, count)] if count else []
    longest = max((odds.takes(one, estimates.of(one, {})) for one in circuit.functions), default=0.0)
    size = max(1, min(-(-count // (4 * threads)), count)) if longest * count > SHORTEST else count
    size = max(size, int(SHORTEST / max(longest, 1e-9)))
    return [(begin, min(count, begin + size)) for begin in range(0, count, size)]


def _added(circuit: Circuit, name: str, count: int) -> NDArray[np.generic]:
    (parameter,) = (one for one in circuit.kernel.arrays if one.name == name)
    assert isinstance(parameter.of, Object)
    sizes = [int(one.value) for one in parameter.of.shape[1:] if isinstance(one, Constant)]
    return np.zeros((count, *sizes), DTYPES[parameter.of.type])
