"""Time a kernel's native code: one instance after another, instances as lanes and blocks, several threads, and as a circuit if it has
functions that are long enough.

Inputs are random, of the sizes that the parameters say; whole numbers are below the smallest size. Ways take turns, so that a busy moment
of the machine meets all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from laminar.cli.kernel_params import File, Instances, Params
from laminar.cli.output import Json, print_json, say, table
from laminar.core.errors import LaminarError

if TYPE_CHECKING:
    from laminar.kernels.circuit.guess import Account
    from laminar.kernels.language.tree import Kernel


def run(
    file: File,
    param: Params = None,
    instances: Instances = None,
    threads: Annotated[int, typer.Option("--threads", metavar="N", min=1, max=64, help="Of the last way.")] = 2,
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", min=1, help="Times that each way is run; the median counts.")] = 15,
    json: Json = False,
) -> None:
    from laminar.cli.kernel_params import ending_at_once, given
    from laminar.kernels.circuit.native_phases import NativePhases
    from laminar.kernels.compile.bench import benched
    from laminar.kernels.compile.native import compiled, waits
    from laminar.kernels.open_file import need_extra, open_kernel

    need_extra()
    kernel = open_kernel(Path(file))
    words = given(kernel, param or [])
    values, count = _sizes(kernel, words.values, instances, file.name)
    split = _Split(kernel, values, count, threads)
    code = NativePhases if waits(kernel) else compiled
    try:
        with ending_at_once():
            found = benched(
                kernel, words.values, values, count, threads=threads, rounds=rounds, file=file.name, others=split.ways, made=code
            )
    except MemoryError as error:
        raise LaminarError("L702", f"{file.name}: {count:,} instances: {error}", hint="fewer instances, or smaller values") from None
    found["guesses"] = split.account.to_json() if split.account is not None else None
    if json:
        print_json(found)
        return
    rows = [
        [one["name"], f"{one['median_ms']:.3f}", f"{one['best_ms']:.3f}", f"{one['ns_per_instance']:.2f}", f"{one['times']:.2f}x"]
        for one in found["ways"]
    ]
    columns = ["way", "median ms", "best ms", "ns/instance", "of the first"]
    table(f"{count:,} instances", columns, rows, right=columns[1:])
    if split.account is not None and split.account.started:
        say(f"guesses of the last circuit: {split.account.text()}")
    say(f"compiled in {found['compile_ms']:.0f} ms, from the cache in {found['cached_ms']:.1f} ms; {found['plan']}")


class _Split:
    """The kernel as a circuit, if it has several functions that are worth it."""

    def __init__(self, kernel: Kernel, values: dict[str, Any], count: int, threads: int) -> None:
        self._kernel, self._values, self._count, self._threads = kernel, values, count, threads
        self.account: Account | None = None

    def ways(self, arrays: list[Any]) -> dict[str, Callable[[], None]]:
        from laminar.kernels.circuit.apart import Pairs
        from laminar.kernels.circuit.build import Series, build
        from laminar.kernels.circuit.guess import Odds
        from laminar.kernels.circuit.native_call import call
        from laminar.kernels.circuit.run import run_circuit
        from laminar.kernels.compile.native import waits

        if self._threads < 2 or waits(self._kernel):
            return {}
        circuit = build(self._kernel)
        if len(circuit.functions) < 2 and not any(isinstance(one, Series) for one in circuit.steps):
            return {}
        pairs, odds = Pairs(circuit), Odds()
        named = {one.name: array for one, array in zip(self._kernel.arrays, arrays, strict=True)}

        def run() -> None:
            given = (circuit, call, named, self._values, self._count)
            self.account = run_circuit(*given, threads=self._threads, odds=odds, pairs=pairs)

        return {f"circuit, {self._threads} threads": run}


def _sizes(kernel: Kernel, given: dict[str, Any], instances: int | None, file: str) -> tuple[dict[str, Any], int]:
    """Values, those of floats 0.5 if nobody says; the number of instances."""
    from laminar.kernels.arguments import checked, evaluated

    values: dict[str, Any] = dict(checked(kernel, given, file))
    for one in kernel.values:
        if one.name not in given and one.of.type not in ("float", "double", "bool"):
            said = f"{file}: the value `{one.name}` ({one.of.type}) is not given"
            raise LaminarError("L702", said, hint=f"--param {one.name}=64")
        values.setdefault(one.name, 0.5)
    if instances is None and kernel.instances is not None:
        instances = evaluated(kernel.instances, {one.of: values[one.name] for one in kernel.values})  # type: ignore[misc]
    if instances is None or instances < 1:
        said = "nothing tells the number of instances" if instances is None else f"{instances} instances"
        raise LaminarError("L702", f"{file}: {said}", hint="--instances 1000000")
    return values, instances
