"""Kernels: what is proved holds, native code stays within its arrays, and gives the emulator's bits.

A case is a random kernel with five calls at the edges (_kernel_writer.py; some of loops that count, _loop_writer.py). A warm child compiles
it as the operator does (some kernels as a circuit, also by the operator itself, some with counters, whose report has to be the emulator's)
and runs it on arrays between pages that nobody may touch; the emulator runs it with every check on. A case fails where the child dies,
where something beside an array was written, where the emulator finds what a verdict says is proved never to happen, and where bits differ
or an error is not the same in both. A call with more rounds than the emulator has patience for is run in a process of its own for half a
second, and has to stay within its arrays.
`python -m tests.nets.kernels shrink SEED` prints the smallest kernel that fails as this one does.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from tests.nets._kernel_writer import Case, Nodes, smaller
from tests.nets._warm_child import WarmChild, serve

STEPS: Final = 1500  # rounds of loops that an instance of the emulator has
PATIENCE: Final = 0.5  # seconds for calls that take more
KINDS: Final = {"out-of-bounds": "bounds", "division-by-zero": "division", "divergent-barrier": "barrier"}

_child = WarmChild("tests.nets.kernels")


def check(seed: int) -> str:
    return attempt(Case.of(seed), f"seed {seed}")


def attempt(case: Case, named: str) -> str:
    try:
        return str(_child.ask(case.to_json()))
    except AssertionError as error:
        raise AssertionError(f"{named}: {error}\n{case.text}") from None


def close() -> None:
    _child.close()


# in the child


def tried(case: dict[str, Any]) -> str:
    """A word for what became of the case."""
    from laminar.core.errors import LaminarError
    from laminar.kernels.circuit.native_phases import NativePhases
    from laminar.kernels.compile.native import Options, compiled, waits
    from laminar.kernels.emulate.run import emulate
    from laminar.kernels.language.kernel import read_kernel
    from laminar.kernels.language.rules import KernelError

    try:
        kernel = read_kernel(case["text"])
        told = Told.of(kernel)
    except KernelError as error:
        return f"refused by {error.rule}"
    options = Options(lanes=case["mode"] != "one by one", cached=False)
    if case["mode"] in ("circuit", "operator") and not waits(kernel):
        native: Any = AsCircuit(kernel) if case["mode"] == "circuit" else AsOperator(kernel)
    else:
        native = (NativePhases if waits(kernel) else compiled)(kernel, options)
    threads = 2 if case["mode"] in ("threads", "circuit", "operator") else 1
    words: Counter[str] = Counter()
    for call in case["calls"]:
        arrays, values = inputs(kernel, call)
        if arrays is None:
            continue
        try:
            report = emulate(kernel, arrays, values, call["count"], steps=STEPS, proofs=True)
        except LaminarError as error:
            if error.code != "L704":
                raise
            words[alone(native, arrays, values, call, threads)] += 1
            continue
        told.hold(report, arrays, values, call)
        if case["mode"] == "counted":
            same_counts(kernel, report, arrays, values, call)
        words[compared(native, report, arrays, values, call, threads)] += 1
    return "native" if words["same"] else words.most_common(1)[0][0] if words else "no sizes"


class AsCircuit:
    """A kernel split as far as it goes, its functions on two threads."""

    def __init__(self, kernel: Any) -> None:
        from laminar.kernels.circuit.build import build

        shuffle()
        self.kernel, self._circuit = kernel, build(kernel, 0.0)

    def run(self, arrays: list[Any], values: list[Any], count: int, threads: int) -> None:
        from laminar.kernels.circuit.native_call import call
        from laminar.kernels.circuit.run import run_circuit

        named = {one.name: array for one, array in zip(self.kernel.arrays, arrays, strict=True)}
        numbers = {one.name: value for one, value in zip(self.kernel.values, values, strict=True)}
        run_circuit(self._circuit, call, named, numbers, count, threads=threads, grain=0.0)


class AsOperator:
    """As `laminar.kernel` runs it, whose every call is by the circuit, cut as far as it goes."""

    def __init__(self, kernel: Any) -> None:
        from functools import partial

        import torch

        from laminar.kernels.circuit.build import build
        from laminar.kernels.circuit.run import run_circuit
        from laminar.kernels.operator import engine, split

        shuffle()
        torch.set_num_threads(2)
        engine.SHORT, engine.LONG = -1.0, 0.0  # type: ignore[misc]
        split.Decider, split.build = AlwaysCircuit, partial(build, long=0.0)  # type: ignore[misc, assignment]
        split.run_circuit = partial(run_circuit, grain=0.0)  # type: ignore[assignment]
        self.kernel, self._engine = kernel, engine.Direct(kernel, "kernel.c")

    def run(self, arrays: list[Any], values: list[Any], count: int, threads: int) -> None:
        import torch

        from laminar.kernels.operator.split import Split

        tensors = [torch.from_numpy(array) for array in arrays]
        if isinstance(self._engine._split, Split):
            self._engine._split.long_call(values, count, self._engine._ways(count), 1.0)  # it wakes up
        self._engine.run(tensors, self._engine.slots(values), values, count)


def shuffle() -> None:
    """Circuits take any of the tasks that are ready: one that should wait for another and does not comes before it, sooner or later."""
    from laminar.kernels.circuit import run, schedule

    drawn = Random(0)

    class Shuffled(schedule.Schedule):
        def take(self) -> Any:
            self._go_on()
            self.queue.rotate(drawn.randrange(len(self.queue)) if self.queue else 0)
            return super().take()

    run.Schedule = Shuffled


class AlwaysCircuit:
    """Instead of a Decider."""

    long, short = True, False
    times: dict[str, float] = {}  # noqa: RUF012

    def __init__(self, ways: Any, *_: Any) -> None:
        self.way = ways[-1]

    def took(self, *_: Any) -> None:
        """Nothing is measured."""


def same_counts(kernel: Any, report: Any, arrays: dict[str, Any], values: dict[str, Any], call: dict[str, Any]) -> None:
    """Native code with counters reports what the emulator does."""
    from laminar.kernels.circuit.counted_phases import counted

    other = counted(kernel, arrays, values, call["count"], STEPS)
    for what in ("findings", "counts", "lines"):
        one, two = getattr(report, what), getattr(other, what)
        assert one == two, f"native code with counters has other {what}, {call}:\n{two}\n{one}"
    for name, wanted in report.outputs.items():
        assert other.outputs[name].tobytes() == wanted.tobytes() or wanted.dtype.kind == "f", f"`{name}` differs with counters, {call}"


def inputs(kernel: Any, call: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    import numpy as np

    from laminar.kernels.arguments import DTYPES, shape_of

    rng = np.random.default_rng(call["seed"])
    values = {one.name: call[one.name] for one in kernel.values}
    scalars = {kernel.count: call["count"], **{one.of: values[one.name] for one in kernel.values}}
    n, arrays = call["n"], {}
    edges = np.array([0, -1, 1, n - 1, n, n + 1, 2**31 - 1, -(2**31), 3, 8, 2**30])
    for one in kernel.arrays:
        shape, type_ = shape_of(one.of, scalars), DTYPES[one.of.type]
        if min(shape) < 1:
            return None, values
        if one.of.type in ("int", "long"):
            drawn = np.where(rng.random(shape) < 0.15, rng.choice(edges, shape), rng.integers(-2, n + 2, shape))
        else:
            drawn = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 11, shape)
            drawn = np.where(rng.random(shape) < 0.1, rng.choice([np.nan, np.inf, -np.inf, -0.0, 3e38], shape), drawn)
        arrays[one.name] = drawn.astype(type_)
    if "w" in arrays and call["seed"] % 3 == 0:
        arrays["w"] = arrays["x"]
    return arrays, values


@dataclass
class Told:
    """What is said of a kernel. `granted`: what its proofs take for granted, and with it of runs that keep to the text's sizes."""

    kernel: Any
    verdicts: list[Any]
    granted: list[Any]
    counted: bool  # sizes of arrays name the number of instances

    @staticmethod
    def of(kernel: Any) -> Told:
        from laminar.kernels.analyse.granted import Granted
        from laminar.kernels.analyse.start import Start
        from laminar.kernels.analyse.verdicts import verdicts

        granted = [Granted.of(kernel), Granted.of(kernel, said=True)]
        return Told(kernel, verdicts(kernel), granted, Start.of(kernel, said=True).number is None)

    def hold(self, report: Any, arrays: dict[str, Any], values: dict[str, Any], call: dict[str, Any]) -> None:
        """Nothing that is proved never to happen has happened."""
        keeps, as_said = (one.broken(values, call["count"]) is None for one in self.granted)
        if not keeps:
            return
        open_, proved = set(), set()
        for one in self.verdicts:
            place = (one.kind, frozenset((one.at, one.other or one.at)))
            (proved if one.verdict == "proved" and (as_said or not one.said) else open_).add(place)
        for finding in report.findings:
            place = (KINDS.get(finding.kind, finding.kind), frozenset((finding.at, finding.other or finding.at)))
            said = finding.text("kernel.c", self.kernel.text)
            assert place in open_ or place not in proved, f"refuted: {place[0]} was proved, {call}: {said}"
        self._hold_written(as_said, arrays, values, call)

    def _hold_written(self, as_said: bool, arrays: dict[str, Any], values: dict[str, Any], call: dict[str, Any]) -> None:
        """Outputs of which every element is said to be written have no element that stays what it was, whatever that is."""
        import numpy as np

        from laminar.kernels.arguments import evaluated
        from laminar.kernels.emulate.run import emulate

        kernel = self.kernel
        number = None if kernel.instances is None else evaluated(kernel.instances, {one.of: values[one.name] for one in kernel.values})
        if number is None:
            first = next(one for one in kernel.arrays if one.mode != "in")
            number = call["count"] if self.counted else arrays[first.name].size
        sure = [one for one in self.verdicts if one.kind == "written" and one.verdict == "proved"]
        names = [one.what.strip("`") for one in sure if not one.said or (as_said and number == call["count"])]
        if not names:
            return
        fills = []
        for fill in (1, 0):
            filled = {name: np.full_like(array, fill) if name in names else array for name, array in arrays.items()}
            fills.append(emulate(kernel, filled, values, call["count"], steps=STEPS).outputs)
        for name in names:
            stayed = (fills[0][name] == 1) & (fills[1][name] == 0)
            assert not stayed.any(), f"refuted: `{name}` is not written at {np.argwhere(stayed)[0].tolist()}, {call}"


def compared(native: Any, report: Any, arrays: dict[str, Any], values: dict[str, Any], call: dict[str, Any], threads: int) -> str:
    from laminar.core.errors import LaminarError

    beyond = [one for one in report.findings if one.kind == "out-of-bounds"]
    error: LaminarError | None = None
    guarded = run_guarded(native, arrays, values, call, threads)
    if isinstance(guarded, LaminarError):
        error, guarded = guarded, {}
    if beyond:
        assert error is not None, f"native code did not see, {call}: {beyond[0].text('kernel.c', '')}"
        assert error.code == "L703", f"native code ends with {error}, {call}, and not with L703: {beyond[0].what}"
        return "L703"
    assert error is None, f"native code ends with {error}, {call}; the emulator finds nothing of that"
    for name, wanted in report.outputs.items():
        got = guarded[name]
        bits = f"u{wanted.dtype.itemsize}"
        same = got.view(bits) == wanted.view(bits)
        if wanted.dtype.kind == "f":
            same |= (got != got) & (wanted != wanted)
        assert same.all(), f"`{name}` differs at {next(zip(*(~same).nonzero(), strict=True))}, {call}:\n{got}\n{wanted}"
    return "same"


def run_guarded(native: Any, arrays: dict[str, Any], values: dict[str, Any], call: dict[str, Any], threads: int) -> Any:
    """Arrays as native code leaves them, by name, or the error that it ends with."""
    from laminar.core.errors import LaminarError
    from laminar.kernels.circuit import phases
    from tests.nets._guarded import Guarded

    at_end = call["seed"] % 4 != 0
    guarded = {name: Guarded(array, at_end=at_end) for name, array in arrays.items()}
    if "w" in arrays and arrays["w"] is arrays["x"]:
        guarded["w"] = guarded["x"]
    added: list[Guarded] = []

    def zeros(shape: Any, dtype: Any) -> Any:
        added.append(Guarded(numpy.zeros(shape, dtype), at_end=at_end))
        return added[-1].array

    numpy = phases.np
    phases.np = SimpleNamespace(zeros=zeros)  # what phases keep between them lies between such pages, too
    error: LaminarError | None = None
    try:
        native.run([one.array for one in guarded.values()], list(values.values()), call["count"], threads)
    except LaminarError as caught:
        error = caught
    finally:
        phases.np = numpy
    for name, one in [*guarded.items(), *(("what phases keep", one) for one in added)]:
        assert one.whole, f"native code wrote beside `{name}`, {call}"
    inputs_ = [one.name for one in native.kernel.arrays if one.mode == "in"]
    for name in inputs_:
        assert (guarded[name].array.view("u1") == arrays[name].view("u1")).all(), f"native code changed the input `{name}`, {call}"
    return error or {name: one.array for name, one in guarded.items()}


def alone(native: Any, arrays: dict[str, Any], values: dict[str, Any], call: dict[str, Any], threads: int) -> str:
    """A call that may take for ever, in a process that is ended after a moment."""
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of native code wait in the parent, and are not needed in the child
        child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        code = 3
        try:
            run_guarded(native, arrays, values, call, 1)
            code = 0
        except AssertionError as error:
            print(error, file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in (0, -signal.SIGALRM), f"a call of many rounds ended with {ended}, {call}"
    return "many rounds"


# by hand


def shrunk(nodes: Nodes, case: Case, said: str) -> Case:
    """The smallest that fails with an error that begins like this one."""
    again = True
    while again:
        again = False
        for fewer in smaller(nodes):
            try:
                attempt(Case(fewer, case.calls, case.mode), "")
            except AssertionError as error:
                if sort_of(str(error)) == said:
                    nodes, again = fewer, True
                    break
    return Case(nodes, case.calls, case.mode)


def sort_of(error: str) -> str:
    words = error.split(": ", 2)
    return " ".join(words[2 if words[1] == "AssertionError" else 1].split()[:3])


def main() -> None:
    if sys.argv[1:] == ["child"]:
        with tempfile.TemporaryDirectory() as folder:  # native code is kept there and not with the user's
            os.environ["LAMINAR_CACHE"] = folder
            serve(tried)
        return
    case = Case.of(int(sys.argv[2]))
    try:
        print(check(int(sys.argv[2])))
    except AssertionError as error:
        print(error)
        small = shrunk(case.nodes, case, sort_of(str(error)))
        try:
            attempt(small, "shrunk")
        except AssertionError as less:
            print(less)
    close()


if __name__ == "__main__":
    main()
