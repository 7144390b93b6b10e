"""The board on which jobs are posted for helpers, and the native code around it: claiming chunks, looking out for work, waiting for others.

Each of those that take part has a range of the instances, and when that is done claims chunks of the others'. So a thread has the same
elements at each call, which its cache may still hold, and a thread that is held up costs its share and no more.
"""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Final

from laminar.core import futex
from laminar.kernels.compile.assembly import Code, Module, Word, number

CLAIM: Final = "claim"
PATIENCE: Final = 32  # looks before another one gets the processor
PAUSES: Final = 4
MOST: Final = 64
CPUS: Final = 1024  # that glibc's sets of processors have room for
DONE, FAILED, BUSY, ASLEEP, UNHELPED = range(5)  # what became of a job; the last: it was done, and nobody joined


class Status(ctypes.Structure):
    """The first failure of a call, if any; and what interrupts.py needs to end it: `since`, the clock when it looked last, `calls` into
    Python, `stop` of those that share the call, and the `error` that a signal's handler raised."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("line", ctypes.c_int32),
        ("column", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        ("instance", ctypes.c_int64),
        ("index", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("since", ctypes.c_int64),
        ("calls", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
        ("error", ctypes.c_void_p * 3),
    ]


class Range(ctypes.Structure):
    """`following`: the next instance of it that nobody has claimed. A line of the cache each."""

    _fields_ = [("following", ctypes.c_int64), ("end", ctypes.c_int64), ("unused", ctypes.c_int64 * 6)]


class Job(ctypes.Structure):
    """Instances from `begun` to before `count`, in ranges of `part`, one for each of the `parts` that take part: by `claim` of a kernel, a
    chunk at a time. `awake`: helpers without which it is not run."""

    _fields_ = [(name, ctypes.c_int64) for name in ("claim", "chunk", "count", "arrays", "values", "parts", "begun", "part", "awake")]


class Board(ctypes.Structure):
    """Where work is posted, a job at a time. `seats`: helpers that may still join; `done`: those that joined and are through; `limit`:
    instances from here on need not be run, because one has failed; `busy`: somebody's job is here; `awake`: helpers that look out for one;
    `asleep`: those that do not, and that nobody has called yet; `rung`: what they sleep on, counts calls.
    Then what is known of the job."""

    _fields_ = [
        ("posted", ctypes.c_int64),
        ("seats", ctypes.c_int64),
        ("done", ctypes.c_int64),
        ("limit", ctypes.c_int64),
        ("busy", ctypes.c_int64),
        ("awake", ctypes.c_int64),
        ("asleep", ctypes.c_int64),
        ("rung", ctypes.c_int64),
        ("claim", ctypes.c_int64),
        ("chunk", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("arrays", ctypes.c_int64),
        ("values", ctypes.c_int64),
        ("parts", ctypes.c_int64),  # that take part, and ranges
        ("stop", ctypes.c_int64),  # is the job to end?
        ("more", ctypes.c_int64),
        ("allowed", ctypes.c_uint64 * (CPUS // 64)),  # processors
        ("ranges", Range * MOST),
        ("status", Status * MOST),  # of each
    ]


def _place(code: Code, board: Word, name: str, offset: int = 0) -> Word:
    return code.address("i8", board, number("i64", getattr(Board, name).offset + offset))


def _range(code: Code, board: Word, part: Word) -> tuple[Word, Word]:
    """Where `following` and `end` are."""
    first = code.address("i8", _place(code, board, "ranges"), code.binary("mul", part, number("i64", ctypes.sizeof(Range))))
    return first, code.address("i64", first, number("i64", 1))


def write_claim(module: Module, run: str) -> None:
    """`void claim(Board*, int64 seat)`: chunk after chunk, of one's own range first. Chunks before one that failed are run nevertheless, so
    that the first failure is always the same."""
    board, seat = Word("%board", "ptr"), Word("%seat", "i64")
    code = Code(module, CLAIM, [(board, ""), (seat, "")], "i32", "nounwind")
    chunk, count, parts = (code.load("i64", _place(code, board, name)) for name in ("chunk", "count", "parts"))
    arrays, values = (code.load("ptr", _place(code, board, name)) for name in ("arrays", "values"))
    status = code.address("i8", _place(code, board, "status"), code.binary("mul", seat, number("i64", ctypes.sizeof(Status))))
    tried, mine = code.room("i64"), code.room("i64")
    code.store(number("i64", 0), tried)
    code.store(seat, mine)
    turn, again, look, work, failed, other, wrap, after = (
        code.fresh(word) for word in ("turn", "again", "look", "work", "failed", "other", "wrap", "after")
    )
    code.label(turn)
    following, last = _range(code, board, code.load("i64", mine))
    end = code.load("i64", last)
    code.jump(again)
    code.label(again)
    begin = code.op(f"atomicrmw add {following}, {chunk} monotonic", "i64")
    code.branch(code.compare("slt", begin, end), look, other)
    code.label(look)
    limit = code.op(f"load atomic i64, {_place(code, board, 'limit')} monotonic, align 8", "i64")
    code.branch(code.compare("slt", begin, limit), work, other)
    code.label(work)
    stop = code.intrinsic("smin", code.binary("add", begin, chunk), end)
    result = code.op(f"call i32 @{run}({begin}, {stop}, {count}, {arrays}, {values}, {status})", "i32")
    code.branch(code.compare("eq", result, number("i32", 0)), again, failed)
    code.label(failed)
    code.op(f"atomicrmw min {_place(code, board, 'limit')}, {begin} monotonic", "i64")
    code.jump(other)
    code.label(other)
    so_far = code.binary("add", code.load("i64", tried), number("i64", 1))
    code.store(so_far, tried)
    code.branch(code.compare("slt", so_far, parts), wrap, after)
    code.label(wrap)
    following_part = code.binary("add", code.load("i64", mine), number("i64", 1))
    code.store(code.binary("srem", following_part, parts), mine)
    code.jump(turn)
    code.label(after)
    code.give(number("i32", 0))
    code.finish()


def text() -> str:
    """LLVM's, of `serve`, `lead` and `ring`."""
    module = Module()
    _write_serve(module)
    _write_lead(module)
    _write_ring(module)
    return str(module)


def _take_part(code: Code, board: Word, seat: Word) -> None:
    claim = code.load("ptr", _place(code, board, "claim"))
    code.op(f"call i32 {claim.name}({board}, {seat})", "i32")


def _write_serve(module: Module) -> None:
    """`int64 serve(Board*, int64 seen, int64 looks)`: take part in what is newer than `seen`, until there is nothing for so many looks;
    then sleep until somebody calls. Where the system has nothing to sleep on, it gives the newest that was seen."""
    board, seen, looks = Word("%board", "ptr"), Word("%seen", "i64"), Word("%looks", "i64")
    code = Code(module, "serve", [(board, ""), (seen, ""), (looks, "")], "i64", "nounwind")
    left, known = code.room("i64"), code.room("i64")
    code.store(looks, left)
    code.store(seen, known)
    again, wait, late, come, join, awake = (code.fresh(word) for word in ("again", "wait", "late", "come", "join", "awake"))
    code.label(awake)
    code.op(f"atomicrmw add {_place(code, board, 'awake')}, i64 1 monotonic", "i64")
    code.label(again)
    now = code.op(f"load atomic i64, {_place(code, board, 'posted')} acquire, align 8", "i64")
    code.branch(code.compare("ne", now, code.load("i64", known)), come, wait)
    code.label(wait)
    fewer = code.binary("sub", code.load("i64", left), number("i64", 1))
    code.store(fewer, left)
    _pause(code, fewer)
    code.branch(code.compare("sgt", fewer, number("i64", 0)), again, late)
    code.label(late)
    code.op(f"atomicrmw sub {_place(code, board, 'awake')}, i64 1 monotonic", "i64")
    if futex.NUMBER:
        _sleep(code, board)
        code.store(looks, left)
        code.jump(awake)
    else:
        code.give(code.load("i64", known))
    code.label(come)
    code.store(now, known)
    code.store(looks, left)
    seat = code.op(f"atomicrmw sub {_place(code, board, 'seats')}, i64 1 acq_rel", "i64")
    code.branch(code.compare("sgt", seat, number("i64", 0)), join, again)
    code.label(join)
    _take_part(code, board, seat)
    code.op(f"atomicrmw add {_place(code, board, 'done')}, i64 1 release", "i64")
    code.jump(again)
    code.finish()


def _write_lead(module: Module) -> None:
    """`int32 lead(Board*, Job*)`: post the job, take part, let nobody else join, wait for those that did. Gives DONE, UNHELPED, BUSY,
    ASLEEP; or FAILED if an instance has: then the board stays the caller's, to look at what is noted there."""
    board, job = Word("%board", "ptr"), Word("%job", "ptr")
    code = Code(module, "lead", [(board, ""), (job, "")], "i32", "nounwind")
    given = {name: code.load("i64", code.address("i8", job, number("i64", getattr(Job, name).offset))) for name, *_ in Job._fields_}
    look, asleep, taken, mine = (code.fresh(word) for word in ("look", "asleep", "taken", "mine"))
    busy = _place(code, board, "busy")
    pair = code.op(f"cmpxchg {busy}, i64 0, i64 1 acq_rel monotonic", "{ i64, i1 }")
    code.branch(code.op(f"extractvalue {pair}, 1", "i1"), look, taken)
    code.label(taken)
    code.give(number("i32", BUSY))
    code.label(look)
    awake = code.op(f"load atomic i64, {_place(code, board, 'awake')} monotonic, align 8", "i64")
    code.branch(code.compare("slt", awake, given["awake"]), asleep, mine)
    code.label(asleep)
    code.emit(f"store atomic i64 0, {busy} release, align 8")
    code.give(number("i32", ASLEEP))
    code.label(mine)
    for name in ("claim", "chunk", "count", "arrays", "values", "parts"):
        code.store(given[name], _place(code, board, name))
    most, parts = number("i64", 2**63 - 1), given["parts"]
    code.store(most, _place(code, board, "limit"))
    code.store(number("i64", 0), _place(code, board, "done"))
    number_, filled = code.room("i64"), code.fresh("filled")
    code.store(number("i64", 0), number_)
    fill = code.fresh("fill")
    code.label(fill)
    one = code.load("i64", number_)
    begin = code.binary("add", given["begun"], code.binary("mul", one, given["part"]))
    following, last = _range(code, board, one)
    code.store(begin, following)
    code.store(code.intrinsic("smin", code.binary("add", begin, given["part"]), given["count"]), last)
    more = code.binary("add", one, number("i64", 1))
    code.store(more, number_)
    code.branch(code.compare("slt", more, parts), fill, filled)
    code.label(filled)
    seats = code.binary("sub", parts, number("i64", 1))
    code.emit(f"store atomic {seats}, {_place(code, board, 'seats')} release, align 8")
    code.op(f"atomicrmw add {_place(code, board, 'posted')}, i64 1 acq_rel", "i64")
    _take_part(code, board, number("i64", 0))
    left = code.op(f"atomicrmw xchg {_place(code, board, 'seats')}, i64 -1000000 acq_rel", "i64")
    joined = code.binary("sub", seats, code.intrinsic("smax", left, number("i64", 0)))
    again, wait, after = (code.fresh(word) for word in ("again", "wait", "after"))
    looks = code.room("i64")
    code.store(number("i64", 1), looks)
    code.label(again)
    done = code.op(f"load atomic i64, {_place(code, board, 'done')} acquire, align 8", "i64")
    code.branch(code.compare("sge", done, joined), after, wait)
    code.label(wait)
    now = code.load("i64", looks)
    _pause(code, now)
    code.store(code.binary("add", now, number("i64", 1)), looks)
    code.jump(again)
    code.label(after)
    failed, fine = code.fresh("failed"), code.fresh("fine")
    code.branch(code.compare("ne", code.load("i64", _place(code, board, "limit")), most), failed, fine)
    code.label(failed)
    code.give(number("i32", FAILED))
    code.label(fine)
    code.emit(f"store atomic i64 0, {busy} release, align 8")
    helped = code.compare("sgt", joined, number("i64", 0))
    code.give(code.select(helped, number("i32", DONE), number("i32", UNHELPED)))
    code.finish()


def _sleep(code: Code, board: Word) -> None:
    """Until somebody calls. Not in Python: whoever wakes up there waits for its lock, which a caller of many short jobs hardly ever leaves
    for as long as it takes to wake up. Wakes up where the caller is not (pool.py), and may go anywhere from there."""
    rung = _place(code, board, "rung")
    before = code.op(f"load atomic i64, {rung} acquire, align 8", "i64")
    code.op(f"atomicrmw add {_place(code, board, 'asleep')}, i64 1 seq_cst", "i64")
    again, called = code.fresh("again"), code.fresh("called")
    code.label(again)
    given = [number("i64", futex.NUMBER), rung, number("i64", futex.WAIT | futex.PRIVATE), before, *[number("i64", 0)] * 3]
    code.call("syscall", "i64", given)
    now = code.op(f"load atomic i64, {rung} acquire, align 8", "i64")
    code.branch(code.compare("eq", now, before), again, called)
    code.label(called)
    code.call("sched_setaffinity", "i32", [number("i32", 0), number("i64", CPUS // 8), _place(code, board, "allowed")])


def _write_ring(module: Module) -> None:
    """`int64 ring(Board*, int64 most)`: call so many of those that are asleep, one caller at a time; gives how many."""
    board, most = Word("%board", "ptr"), Word("%most", "i64")
    code = Code(module, "ring", [(board, ""), (most, "")], "i64", "nounwind")
    asleep, rung = (_place(code, board, name) for name in ("asleep", "rung"))
    called = code.intrinsic("smin", code.op(f"load atomic i64, {asleep} monotonic, align 8", "i64"), most)
    code.op(f"atomicrmw sub {asleep}, {called} seq_cst", "i64")
    code.op(f"atomicrmw add {rung}, i64 1 seq_cst", "i64")
    if futex.NUMBER:
        given = [number("i64", futex.NUMBER), rung, number("i64", futex.WAKE | futex.PRIVATE), called, *[number("i64", 0)] * 3]
        code.call("syscall", "i64", given)
    code.give(called)
    code.finish()


def _pause(code: Code, looks: Word) -> None:
    """A moment; and now and then whoever else wants this processor gets it: it may be the very one that is waited for."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        for _ in range(PAUSES):
            code.call("llvm.x86.sse2.pause", "void", [])
    if hasattr(os, "sched_yield"):
        now = code.compare("eq", code.binary("and", looks, number("i64", PATIENCE - 1)), number("i64", 0))
        with code.when(now):
            code.call("sched_yield", "i32", [])
