"""Interrupts: long calls react to Ctrl-C, and let other threads use the interpreter.

A loop that contains loops, or may not end, calls `own.poll` from time to time. It reads the processor's clock, and every few hundredths
of a second calls into Python, which runs pending signal handlers. If a handler raises, the call ends, and its caller gets the exception.
Between two polls loops count their rounds down, so polling takes hardly any time.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from typing import Final, NoReturn

from laminar.kernels.analyse.counted import counted
from laminar.kernels.compile.assembly import Code, Module, Word, number
from laminar.kernels.compile.board import Status
from laminar.kernels.language.fold import folded
from laminar.kernels.language.tree import Block, Loop, blocks

INTERRUPTED: Final = 6  # a kind of failure, in the status
POLL: Final = "own.poll"
FIRST: Final = 1  # rounds before the first look: each may take seconds
MOST: Final = 1 << 30  # and between two
FEW: Final = 256  # rounds of a loop that is over before anybody waits
_X86: Final = platform.machine().lower() in ("x86_64", "amd64")
_CLOCK: Final = "llvm.readcyclecounter" if _X86 else "llvm.readsteadycounter"  # where others have none it stands still
_PERIOD: Final = 1 << 26 if _X86 else 1 << 20  # of its ticks
_PYTHON: Final = (
    "PyGILState_Ensure",
    "PyErr_CheckSignals",
    "PyErr_Fetch",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyGILState_Release",
)
_TABLE: Final = (ctypes.c_void_p * len(_PYTHON))(*(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _PYTHON))
_RESTORE: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(("PyErr_Restore", ctypes.pythonapi))


def heard(status: Status, stop: int = 0) -> Status:
    """Make a call interruptible. `stop`: the address of a word by which threads that share a call end together."""
    status.calls, status.stop = ctypes.addressof(_TABLE), stop
    return status


def interrupt(status: Status) -> NoReturn:
    """Raises what the signal's handler raised."""
    error = [*status.error]
    status.error[:] = [None] * len(error)
    if error[0] is not None:
        _RESTORE(*error)
    raise KeyboardInterrupt


def takes_long(loop: Loop) -> bool:
    """May it, as far as its text tells?"""
    if any(is_long(part) for part in blocks(loop)):
        return True
    found = counted(loop)
    start, bound = (folded(one) if one is not None else None for one in (found.start, found.bound)) if found is not None else (None, None)
    if found is None or bound is None or not found.exact or found.counter.type == "long":
        return True
    return abs(int(bound.value)) > FEW or (start is not None and abs(int(start.value)) > FEW)


def polls(loop: Loop) -> bool:
    """Whether its rounds are counted: it contains a long loop whose rounds are not."""
    return any(asks(part) for part in blocks(loop))


def asks(block: Block) -> bool:
    """Whether it contains a long loop whose rounds are not counted."""
    return any(not polls(one) for one in _long(block))


def is_long(block: Block) -> bool:
    return any(True for _ in _long(block))


def _long(block: Block) -> Iterator[Loop]:
    """The outermost loops that take long."""
    for one in block:
        if isinstance(one, Loop) and takes_long(one):
            yield one
        else:
            for part in blocks(one):
                yield from _long(part)


class Interrupts:
    """Of one function: `left` rounds until the next look, of `stride`. `counts`: blocks of instances are such rounds, too."""

    def __init__(self, code: Code, status: Word, *, counts: bool) -> None:
        self._code, self._status, self.counts = code, status, counts
        self._left, self._stride = code.room("i64"), code.room("i64")
        for room in (self._left, self._stride):
            code.first.append(f"  store i64 {FIRST}, {room}")

    def round(self) -> None:
        """At the start of each."""
        code = self._code
        left = code.binary("sub", code.load("i64", self._left), number("i64", 1))
        code.store(left, self._left)
        now, after = code.fresh("look"), code.fresh("on")
        code.branch(code.compare("sle", left, number("i64", 0)), now, after, rare=True)
        code.label(now)
        code.store(self.look(), self._left)
        code.jump(after)
        code.label(after)

    def look(self) -> Word:
        """Emit a poll. The result is the rounds until the next one; the function ends if the call must end."""
        code = self._code
        stride = code.call(POLL, "i64", [self._status, code.load("i64", self._stride)])
        ended, on = code.fresh("interrupted"), code.fresh("on")
        code.branch(code.compare("eq", stride, number("i64", 0)), ended, on, rare=True)
        code.label(ended)
        code.give(number("i32", 1))
        code.label(on)
        code.store(stride, self._stride)
        return stride


def write_poll(module: Module) -> None:
    """`int64 poll(Status*, int64 stride)`: rounds until the next look; 0: the call is to end, as the status says."""
    status, stride = Word("%status", "ptr"), Word("%stride", "i64")
    code = Code(module, POLL, [(status, ""), (stride, "")], "i64", "cold noinline nounwind")

    def place(name: str, more: int = 0) -> Word:
        return code.address("i8", status, number("i64", getattr(Status, name).offset + more))

    def word(name: str) -> Word:
        return code.load("i64", place(name))

    def python(number_: int, result: str, *given: Word) -> Word:
        function = code.load("ptr", code.address("ptr", table, number("i64", number_)))
        words = ", ".join(str(one) for one in given)
        if result == "void":
            code.emit(f"call void {function.name}({words})")
            return function
        return code.op(f"call {result} {function.name}({words})", result)

    one, zero, most = number("i64", 1), number("i64", 0), number("i64", MOST)
    now = code.call(_CLOCK, "i64", [])
    passed = code.binary("sub", now, word("since"))
    soon, late, asked, alone, shared, on, stopped, over = (
        code.fresh(name) for name in ("soon", "late", "asked", "alone", "shared", "on", "stopped", "over")
    )
    code.branch(code.compare("ult", passed, number("i64", _PERIOD)), soon, late)
    code.label(soon)
    code.give(code.intrinsic("smin", code.binary("shl", stride, one), most))
    code.label(late)
    code.store(now, place("since"))
    table = code.load("ptr", place("calls"))
    code.branch(code.op(f"icmp eq {table}, null", "i1"), on, asked)
    code.label(asked)
    code.branch(code.compare("eq", word("stop"), zero), alone, shared)
    code.label(shared)
    others = code.op(f"load atomic i64, {code.load('ptr', place('stop'))} monotonic, align 8", "i64")
    code.branch(code.compare("eq", others, zero), alone, stopped)
    code.label(alone)
    state = python(0, "i32")
    raised = code.compare("ne", python(1, "i32"), number("i32", 0))
    with code.when(raised):
        python(2, "void", place("error"), place("error", 8), place("error", 16))
    python(4, "void", python(3, "ptr"))  # others may have the interpreter
    python(5, "void", state)
    code.branch(raised, over, on)
    code.label(over)
    with code.when(code.compare("ne", word("stop"), zero)):
        code.emit(f"store atomic i64 1, {code.load('ptr', place('stop'))} monotonic, align 8")
    code.jump(stopped)
    code.label(stopped)
    code.store(number("i32", INTERRUPTED), place("kind"), 4)
    code.give(zero)
    code.label(on)
    slow = code.compare("ugt", passed, number("i64", 4 * _PERIOD))
    code.give(code.select(slow, code.intrinsic("smax", code.binary("lshr", stride, one), one), stride))
    code.finish()
