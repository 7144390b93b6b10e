"""Operators of stored graphs with hostile arguments: none crashes, none reads or writes outside of its tensors.

    make fuzz NET=graph_operators MINUTES=30

A case is an overload of the table (model/graph_operators.py), one of the calls of graph_operators.jsonl that works (taken from PyTorch's
own samples), and up to three changes of it: short, empty, huge, negative, of another dtype, overlapping, not contiguous, left out. It runs
through a GraphModule, as a graph from anywhere does, forwards and mostly backwards, in a child: a death is that case's. Every tensor of the
child lies between forbidden pages (guard_pages.c, preloaded; where there is no C compiler, inputs do). Words: "ran", "ran back",
"refused" (by the table and its rules), "refused by torch", "too large" (for the child's memory, or its seconds).
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.model.graph_ir import LEAF, Body, Ref, Spec, Step
from laminar.model.graph_module import GraphModule, Home
from laminar.model.graph_ops import ALLOWED, operator_called

HERE: Final = Path(__file__).parent
SECONDS: Final = 3  # for one case; a large one is not a crash
MEMORY: Final = 4 << 30
CASES_OF_A_CHILD: Final = 400
AT_END: Final = 77  # a child's exit code when nobody asks any more

DTYPES: Final = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "c64": torch.complex64,
    "c128": torch.complex128,
    "u8": torch.uint8,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "b8": torch.bool,
}
LARGEST: Final = (1 << 63) - 1
INTS: Final = [0, -1, 1, 2, 3, 7, -2, 64, 100, -1000, 1 << 20, 1 << 31, -(1 << 31), 1 << 33, (1 << 40) - 1, 1 << 62, LARGEST, -(1 << 63)]
NUMBERS: Final = [0, -1, 1, 0.5, float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 3, 1 << 40, True]
WORDS: Final = ["", "mean", "sum", "max", "fro", "nuc", "reflect", "constant", "floor", "ij", "xy", "bij,bjk->", "ortho", "same", "prod"]
RANGES: Final = [(-1, -1), (-5, 20), (1 << 30, 1 << 31), (-(1 << 62), 1 << 62), (LARGEST, LARGEST), (5, 6), (100, 1000), (0, 0)]
_TENSOR: Final = re.compile(r"([a-z]+\d+)\[([\d,]*)\](?:(-?\d+)\.\.(-?\d+))?")


@dataclass(frozen=True)
class Numbers:
    """A tensor that is still to be made: `f32[2,3]`, `i64[4]0..7`."""

    dtype: str
    shape: tuple[int, ...]
    low: int = 0
    high: int = 3
    layout: str = "plain"  # overlapping | gaps | transposed | nan

    def make(self, chance: torch.Generator) -> Tensor:
        dtype, shape = DTYPES[self.dtype], list(self.shape)
        count = 1
        for size in shape:
            count *= size
        if count > 1 << 20:
            return torch.zeros([], dtype=dtype).expand(shape)
        if self.layout == "overlapping":
            shape[:1] = [1] * len(shape[:1])
        elif self.layout == "gaps":
            shape = [2 * size for size in shape]
        elif self.layout == "transposed":
            shape = shape[::-1]
        if dtype.is_floating_point or dtype.is_complex:
            made = torch.rand(shape, generator=chance).to(dtype)
            made = made / 0 if self.layout == "nan" else made
        else:
            low, high = (0, 1) if dtype == torch.bool else (max(self.low, torch.iinfo(dtype).min), min(self.high, torch.iinfo(dtype).max))
            last = min(max(low, high), LARGEST - 1)
            made = torch.full(shape, low).to(dtype) if last <= low else torch.randint(low, last + 1, shape, generator=chance).to(dtype)
        made = behind_a_page(made)
        if self.layout == "overlapping":
            return made.expand(self.shape)
        if self.layout == "gaps":
            return made[tuple(slice(0, 2 * size, 2) for size in self.shape)]
        return made.permute(list(reversed(range(len(shape))))) if self.layout == "transposed" else made

    def changed(self, chance: random.Random) -> Numbers | None:
        shape = list(self.shape)
        at = chance.randrange(len(shape)) if shape else None
        match chance.randrange(11):
            case 0 if at is not None:
                shape[at] = 0
            case 1 | 2 if at is not None:
                shape[at] = 1
            case 3 if at is not None:
                shape[at] = max(0, shape[at] + chance.choice([-1, 1, 2, -2, 5]))
            case 4 if at is not None:
                shape.pop(at)
            case 5:
                shape.insert(chance.randrange(len(shape) + 1), chance.choice([1, 2, 0, 3]))
            case 6:
                return replace(self, dtype=chance.choice(list(DTYPES)))
            case 7:
                low, high = chance.choice(RANGES)
                return replace(self, low=low, high=high)
            case 8:
                return replace(self, layout=chance.choice(["overlapping", "gaps", "transposed", "nan"]))
            case 9 if at is not None:
                shape[at] = chance.choice([1 << 31, 1 << 16, 100, 1000])
            case _:
                return None if chance.random() < 0.5 else replace(self, shape=tuple(chance.choices([0, 1, 2, 3, 5], k=chance.randrange(5))))
        return replace(self, shape=tuple(shape))


def read(value: Any) -> Any:
    """An argument as graph_operators.jsonl writes it."""
    if isinstance(value, list):
        return [read(item) for item in value]
    if isinstance(value, str):
        if fits := _TENSOR.fullmatch(value):
            shape = tuple(int(size) for size in fits[2].split(",") if size)
            return Numbers(fits[1], shape, int(fits[3] or 0), int(fits[4] or 3))
        kind, _, word = value.partition(":")
        match kind:
            case "dtype" | "layout" | "format":
                return getattr(torch, word)
            case "device":
                return torch.device(word)
            case "float" | "complex":
                return {"float": float, "complex": complex}[kind](word)
    return value


def changed(value: Any, chance: random.Random) -> Any:
    match value:
        case Numbers():
            return value.changed(chance)
        case bool():
            return not value
        case int():
            return chance.choice([*INTS, value + 1, value - 1, value * 2])
        case float():
            return chance.choice(NUMBERS)
        case str():
            return chance.choice(WORDS)
        case list() if value:
            at = chance.randrange(len(value))
            items = list(value)
            match chance.randrange(8):
                case 0:
                    items.pop(at)
                case 1:
                    items.append(items[at])
                case 2:
                    items = []
                case 3:
                    items *= 3
                case _:
                    items[at] = changed(items[at], chance)
            return items
        case list():
            return [chance.choice(INTS)]
        case None:
            return chance.choice(
                [0, 1, -1, 2.0, Numbers("f32", (2,)), Numbers("f32", (1,)), Numbers("i64", (3,), 0, 1), [1], [0], [2, 2], True]
            )
        case torch.dtype():
            return chance.choice([*DTYPES.values(), -1, 1000, LARGEST])
    return chance.choice([value, None, 0, LARGEST])


@cache
def calls() -> dict[str, list[tuple[list[Any], dict[str, Any]]]]:
    """Calls that work, by target."""
    found: dict[str, list[tuple[list[Any], dict[str, Any]]]] = {}
    for line in (HERE / "graph_operators.jsonl").read_text().splitlines():
        name, args, *named = json.loads(line)
        found.setdefault(f"torch.ops.{name}", []).append((args, named[0] if named else {}))
    return found


@dataclass(frozen=True)
class Case:
    target: str
    args: list[Any]
    named: dict[str, Any]
    backwards: bool
    content: int  # bytes of memory that nobody has written

    def __str__(self) -> str:
        return f"{self.target}({', '.join([*map(str, self.args), *(f'{name}={value}' for name, value in self.named.items())])})"


def case_of(seed: int) -> Case:
    chance = random.Random(seed)
    targets = sorted(ALLOWED)
    target = targets[seed % len(targets)]
    args_written, named_written = chance.choice(calls()[target])
    args, named = [read(value) for value in args_written], {name: read(value) for name, value in named_written.items()}
    for _ in range(chance.choice([0, 1, 1, 1, 2, 2, 3])):
        if args and (not named or chance.random() < 0.8):
            at = chance.randrange(len(args))
            args[at] = changed(args[at], chance)
        elif named:
            name = chance.choice(list(named))
            named[name] = changed(named[name], chance)
    schema = operator_called(target)._schema  # type: ignore[attr-defined]  # of torch, all of them
    left_out = [argument for i, argument in enumerate(schema.arguments) if i >= len(args) and argument.name not in named]
    if left_out and chance.random() < 0.25:
        argument = chance.choice(left_out)
        named[argument.name] = changed(_some(str(argument.real_type)), chance)
    return Case(target, args, named, chance.random() < 0.6, chance.choice([0, 0x5B]))


def _some(kind: str) -> Any:
    """Something that an argument of this kind can be."""
    inner = kind.removeprefix("Optional[").rstrip("]")
    by_kind: dict[str, Any] = {"int": 1, "float": 1.0, "number": 1, "bool": False, "str": "mean", "Tensor": Numbers("f32", (3,))}
    return [1] if inner == "List[int" else by_kind.get(inner, torch.float32)


# The child: `python -m tests.nets.graph_operators`, seeds in, words out


def run(case: Case, seed: int) -> str:
    """What becomes of a case, in this process."""
    chance = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    leaves: list[Tensor] = []

    def held(value: Any) -> Any:
        """Tensors become values of the graph, all else stands in its text."""
        if isinstance(value, Numbers):
            leaves.append(value.make(chance))
            return Ref(len(leaves) - 1)
        return tuple(held(item) for item in value) if isinstance(value, list) else value

    step = Step(case.target, tuple(map(held, case.args)), tuple((name, held(value)) for name, value in case.named.items()), (-1,), False)
    step = replace(step, outs=(len(leaves),))
    many = Spec("tuple", (), (Spec("tuple", (), (LEAF,) * len(leaves)), Spec("dict")))
    places = tuple(range(len(leaves)))
    body = Body(many, places, (), (step,), (Ref(len(leaves)),), LEAF, (), (), len(leaves) + 1)
    try:
        module = GraphModule("", "Case", Home({}))
        module.set_bodies(True, [body])
        if case.backwards:
            leaves = [leaf.requires_grad_() * 1 if leaf.is_floating_point() and leaf.is_leaf else leaf for leaf in leaves]
        outputs = [one for one in _tensors(module(*leaves)) if one.numel() < 1 << 22]
        for output in outputs:
            output.detach().clone()
        wanted = [output for output in outputs if output.requires_grad]
        if wanted:
            torch.autograd.backward([output.abs().double().sum() for output in wanted])
            return "ran back"
        return "ran"
    except LaminarError as error:
        return "refused" if error.code == "L207" else f"died with {error.code}"
    except MemoryError:
        return "too large"
    except Exception as error:  # whatever PyTorch answers, it did not crash
        return "too large" if "allocate memory" in str(error) else "refused by torch"


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def behind_a_page(made: Tensor) -> Tensor:
    """The same numbers, a forbidden page right behind them; where guard_pages.c is loaded, they lie so already."""
    if _guard() is not None or not made.numel():
        return made
    pages = -(-made.nbytes // mmap.PAGESIZE)
    space = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(space))
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + pages * mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE), 0):
        return made
    _SPACES.append(space)  # of one child, which does not live long
    flat = torch.frombuffer(space, dtype=made.dtype, count=made.numel(), offset=pages * mmap.PAGESIZE - made.nbytes)
    return flat.view(made.shape).copy_(made)


_SPACES: Final[list[mmap.mmap]] = []


@cache
def _guard() -> Any:
    path = os.environ.get("LD_PRELOAD", "")
    return ctypes.CDLL(path) if "guard_pages" in path else None


def _serve() -> None:
    """Fork a child for the next seeds; another one when it dies."""
    import resource

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    calls()
    guard = _guard()
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no word
    while True:
        pid = os.fork()
        if not pid:
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            for _ in range(CASES_OF_A_CHILD):
                line = _line()
                if not line:
                    os._exit(AT_END)
                case = case_of(int(line))
                signal.alarm(SECONDS)
                if guard is not None:
                    guard.guard_pages_on(1, case.content)
                word = run(case, int(line))
                if guard is not None:
                    guard.guard_pages_on(0, 0)
                signal.alarm(0)
                os.write(out, f"{word}\n".encode())
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == AT_END:
            return
        if code:
            os.write(out, f"died {code}\n".encode())


def _line() -> bytes:
    """The next line of standard input, and nothing behind it: another child may read on."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return b""
        line += byte
    return line


# The net


class _Server:
    """The process that forks children, with every tensor between forbidden pages where there is a C compiler."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        library, compiler = Path(self.folder.name, "guard_pages.so"), shutil.which("cc")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_SHOW_CPP_STACKTRACES": "0"}
        if compiler and sys.platform == "linux":
            subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, HERE / "guard_pages.c", "-ldl"], check=True)
            environment["LD_PRELOAD"] = str(library)
        self.errors = open(Path(self.folder.name, "stderr"), "wb+")  # noqa: SIM115 - closed by close()
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=environment, bufsize=0
        )

    def ask(self, seed: int) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{seed}\n".encode())
        word = self.process.stdout.readline().decode().strip()
        assert word, f"the net's process ended: {self.said()}"
        return word

    def said(self) -> str:
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - 300))
        return self.errors.read().decode(errors="replace").strip()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()
        self.folder.cleanup()


_server: _Server | None = None


def check(seed: int) -> str:
    global _server
    if _server is None:
        _server = _Server()
    try:
        word = _server.ask(seed)
    except OSError:
        close()
        raise
    if word == f"died {-signal.SIGALRM}":
        return "too large"
    assert not word.startswith("died"), f"{case_of(seed)}: {word} ({_server.said()[-200:]})"
    return word


def close() -> None:
    global _server
    if _server is not None:
        _server.close()
        _server = None


if __name__ == "__main__":
    _serve()
