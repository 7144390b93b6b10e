"""Run a kernel with every access counted and watched. Outputs are saved as NAME.npy.

Finds accesses outside of arrays, values that nobody wrote, races between instances, division by zero, and barriers that not all reach:
any of these ends with exit code 2. --arithmetic also finds arithmetic that is defined but rarely wanted: integers that wrap around,
shifts by more bits than a number has, and floats too large for their integer type. --stats shows reads and writes by memory, by array and
by line, and how far the accesses of neighbouring instances are apart. Native code finds the same far faster; it compares up to 16
stretches of 32 neighbours, and leaves it to the emulator to explain what was wrong. auto uses the emulator for up to 100,000 instances.

--trace shows for each place that reads which places wrote what it got, which instances, and how often. --guesses also runs the kernel as a
circuit, twice (the first run tells how long its functions take), and shows what the second one ran before its condition was known: how
often that was right, and the time won and lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laminar.cli.kernel_params import File, Given, Instances, Params
from laminar.cli.output import Json, print_json, say
from laminar.core.errors import LaminarError

if TYPE_CHECKING:
    from laminar.kernels.arguments import Arguments
    from laminar.kernels.circuit.guess import Account
    from laminar.kernels.emulate.report import Report
    from laminar.kernels.language.tree import Kernel

ENGINES = ("auto", "emulator", "native")
MOST = 20  # findings that are shown
MOST_EMULATED = 100_000  # instances, unless the emulator is asked for


def run(
    file: File,
    param: Params = None,
    instances: Instances = None,
    stats: Annotated[bool, typer.Option("--stats", help="Show what was counted.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", metavar="S", help="Run instances in an order drawn by it.")] = None,
    steps: Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Rounds of loops that an instance may take.")] = 100_000_000,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where outputs go.")] = Path(),
    arithmetic: Annotated[
        bool, typer.Option("--arithmetic", help="Find integers that wrap around, shifts that are too wide, and conversions that truncate.")
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show who wrote what each read got.")] = False,
    guesses: Annotated[bool, typer.Option("--guesses", help="Run it as a circuit, too, and show the account of its guesses.")] = False,
    threads: Annotated[int, typer.Option("--threads", metavar="N", min=2, max=64, help="Of the circuit.")] = 2,
    engine: Annotated[str, typer.Option("--engine", metavar="NAME", help="emulator, native or auto.")] = "auto",
    json: Json = False,
) -> None:
    from laminar.cli.kernel_params import ending_at_once, given
    from laminar.kernels.arguments import arguments
    from laminar.kernels.emulate.run import emulate
    from laminar.kernels.open_file import need_extra, open_kernel

    need_extra()
    if engine not in ENGINES:
        raise LaminarError("L008", f"--engine {engine}: there is no such engine", hint="--engine emulator")
    kernel = open_kernel(file)
    words = given(kernel, param or [])
    targets = {one.name: out / f"{one.name}.npy" for one in kernel.arrays if one.mode != "in"}
    _spare_inputs(targets, words)
    _make(out)
    called = arguments(kernel, words.values, instances, file.name)
    if engine == "native" and seed is not None:
        raise LaminarError("L008", "--seed: the order of instances is the emulator's to draw", hint="--engine emulator")
    if engine == "native" and arithmetic:
        raise LaminarError("L008", "--arithmetic: only the emulator checks each number", hint="--engine emulator")
    if engine == "native" and trace:
        raise LaminarError("L008", "--trace: only the emulator keeps who wrote each element", hint="--engine emulator")
    if guesses:
        _check_no_barriers(kernel, file.name)
    if engine == "native" or (engine == "auto" and called.count > MOST_EMULATED and seed is None and not arithmetic and not trace):
        from laminar.kernels.circuit.counted_phases import counted

        with ending_at_once():
            report = counted(kernel, called.arrays, called.values, called.count, steps, empty=words.empty, file=file.name)
    else:
        given_ = (kernel, called.arrays, called.values, called.count, seed, steps)
        report = emulate(*given_, empty=words.empty, file=file.name, arithmetic=arithmetic, trace=trace)
    account = _guessed(kernel, called, threads, file.name) if guesses and not report.findings else None
    _save(report, targets)
    if json:
        shown = report.to_json({name: path.as_posix() for name, path in targets.items()})
        print_json(shown | {"guesses": None if account is None else account.to_json()})
    else:
        if stats:
            say(report.text())
        if trace:
            say(report.trace_text())
        if account is not None:
            say(f"guesses on {threads} threads: {account.text()}")
        for name, path in targets.items():
            array = report.outputs[name]
            say(f"{path.as_posix()}: {array.dtype} {list(array.shape)}")
    _complain(report)


def _check_no_barriers(kernel: Kernel, file: str) -> None:
    from laminar.kernels.compile.native import waits

    if waits(kernel):
        said = f"--guesses: {file} has barriers: what is between two of them runs after what is before, and nothing is guessed"
        raise LaminarError("L008", said, hint="leave out --guesses")


def _guessed(kernel: Kernel, called: Arguments, threads: int, file: str) -> Account:
    """The account of a run as a circuit, on copies of the arrays."""
    from functools import partial

    from laminar.cli.kernel_params import ending_at_once
    from laminar.kernels.circuit.build import build
    from laminar.kernels.circuit.guess import Account, Odds
    from laminar.kernels.circuit.native_call import call
    from laminar.kernels.circuit.run import run_circuit

    circuit, odds, account = build(kernel), Odds(), Account()
    with ending_at_once():
        for _ in range(2):
            arrays = {name: one.copy() for name, one in called.arrays.items()}
            account = run_circuit(circuit, partial(call, file=file), arrays, called.values, called.count, threads=threads, odds=odds)
    return account


def _spare_inputs(targets: dict[str, Path], words: Given) -> None:
    for name, path in targets.items():
        for source in words.files.values():
            if path.exists() and source.exists() and path.samefile(source):
                said = f"the output `{name}` would be written over its input {source}"
                raise LaminarError("L008", said, hint="--out DIR for another folder")


def _make(folder: Path) -> None:
    """Before anything runs."""
    from laminar.core.atomic import explaining_os_errors

    try:
        with explaining_os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LaminarError("L008", f"--out {folder}: {error.strerror}", hint="--out DIR: a folder, or one that can be made") from None


def _save(report: Report, targets: dict[str, Path]) -> None:
    from numpy.lib import format as npy

    from laminar.core.atomic import writing

    for name, path in targets.items():
        array = report.outputs[name]
        with writing(path) as file:  # numpy.save does not say why it could not write
            npy.write_array_header_1_0(file, npy.header_data_from_array_1_0(array))
            file.write(array.data)


def _complain(report: Report) -> None:
    from laminar.kernels.emulate.findings import HINTS

    if report.findings:
        shown = [one.text(report.file, report.kernel.text) for one in report.findings[:MOST]]
        more = [f"and {len(report.findings) - MOST} more findings"] if len(report.findings) > MOST else []
        raise LaminarError("L703", "\n".join([*shown, *more]), hint=HINTS[report.findings[0].kind])
