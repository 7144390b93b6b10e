"""Threads that help: each of those that take part has a range of the instances, and when that is done claims chunks of the others'.

So a thread has the same elements at each call, which its cache may still hold, and a thread that is held up costs its share and no more.
Claiming, waiting for work and waiting for the others is native code without the interpreter's lock. Helpers look out for work for a while
before they sleep, because to wake one up takes longer than many a job; short jobs are for those that are awake.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
import time
from typing import Any, Final

from laminar.kernels.compile.assembly import Code, Module, Word, number
from laminar.kernels.compile.host import linked, object_code

CLAIM: Final = "claim"
WATCH: Final = 4096  # looks before a helper sleeps; some hundred microseconds
PATIENCE: Final = 32  # looks before another one gets the processor
PAUSES: Final = 4
MOST: Final = 64
LEAST: Final = 10e-6  # seconds that a job takes the caller alone: less is never shared
ALONE: Final = 100e-6  # less is shared with helpers that are awake, but none is woken up for it
NEAR: Final = 500e-6  # seconds between two such jobs that are a reason to wake helpers up for the next one
STALLED: Final = 1e-3  # seconds above what a short job takes alone: a helper has lost its processor in the midst of it
RESTS: Final = (20e-3, 640e-3)  # seconds in which short jobs are not shared after that: at first, and at most


class Status(ctypes.Structure):
    """The first failure of a call, if any."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("line", ctypes.c_int32),
        ("column", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        ("instance", ctypes.c_int64),
        ("index", ctypes.c_int64),
        ("size", ctypes.c_int64),
    ]


class Range(ctypes.Structure):
    """`following`: the next instance of it that nobody has claimed. A line of the cache each."""

    _fields_ = [("following", ctypes.c_int64), ("end", ctypes.c_int64), ("unused", ctypes.c_int64 * 6)]


class Board(ctypes.Structure):
    """Where work is posted, a job at a time. `seats`: helpers that may still join; `done`: those that joined and are through; `limit`:
    instances from here on need not be run, because one has failed. Then the job: `claim` of a kernel and its arguments."""

    _fields_ = [
        ("posted", ctypes.c_int64),
        ("seats", ctypes.c_int64),
        ("done", ctypes.c_int64),
        ("limit", ctypes.c_int64),
        ("unused", ctypes.c_int64 * 4),
        ("claim", ctypes.c_int64),
        ("chunk", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("arrays", ctypes.c_int64),
        ("values", ctypes.c_int64),
        ("parts", ctypes.c_int64),  # that take part, and ranges
        ("more", ctypes.c_int64 * 2),
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


def _text() -> str:
    module = Module()
    _write_serve(module)
    _write_lead(module)
    return str(module)


def _take_part(code: Code, board: Word, seat: Word) -> None:
    claim = code.load("ptr", _place(code, board, "claim"))
    code.op(f"call i32 {claim.name}({board}, {seat})", "i32")


def _write_serve(module: Module) -> None:
    """`int64 serve(Board*, int64 seen, int64 looks)`: take part in what is newer than `seen`, until there is nothing for so many looks;
    gives the newest that was seen."""
    board, seen, looks = Word("%board", "ptr"), Word("%seen", "i64"), Word("%looks", "i64")
    code = Code(module, "serve", [(board, ""), (seen, ""), (looks, "")], "i64", "nounwind")
    left, known = code.room("i64"), code.room("i64")
    code.store(looks, left)
    code.store(seen, known)
    again, wait, late, come, join = (code.fresh(word) for word in ("again", "wait", "late", "come", "join"))
    code.label(again)
    now = code.op(f"load atomic i64, {_place(code, board, 'posted')} acquire, align 8", "i64")
    code.branch(code.compare("ne", now, code.load("i64", known)), come, wait)
    code.label(wait)
    fewer = code.binary("sub", code.load("i64", left), number("i64", 1))
    code.store(fewer, left)
    _pause(code, fewer)
    code.branch(code.compare("sgt", fewer, number("i64", 0)), again, late)
    code.label(late)
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
    """`int32 lead(Board*, claim, chunk, count, arrays, values, parts, begun, part)`: post the instances from `begun` in ranges of
    `part`, take part, let nobody else join, wait for those that did. 1 if an instance failed."""
    board = Word("%board", "ptr")
    given = {name: Word(f"%{name}", "i64") for name in ("claim", "chunk", "count", "arrays", "values", "parts", "begun", "part")}
    code = Code(module, "lead", [(board, ""), *((one, "") for one in given.values())], "i32", "nounwind")
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
    failed = code.compare("ne", code.load("i64", _place(code, board, "limit")), most)
    code.give(code.op(f"zext {failed} to i32", "i32"))
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


class Pool:
    """One for the process. A job at a time: who comes meanwhile works alone."""

    def __init__(self) -> None:
        self._library, found = linked(object_code(_text()), "pool", "serve", "lead")
        self._serve = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(found["serve"])
        self._lead = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *(ctypes.c_int64,) * 8)(found["lead"])
        self._memory = ctypes.create_string_buffer(ctypes.sizeof(Board) + 64)
        self._place = -(-ctypes.addressof(self._memory) // 64) * 64
        self._board = Board.from_address(self._place)
        self._wake = threading.Semaphore(0)
        self._asleep = 0
        self._helpers = 0
        self._busy = threading.Lock()
        self._change = threading.Lock()
        self._processor = -1  # where the last caller was
        self._last = self._rests = 0.0  # when the last short job came, and until when such are not shared
        self._rest = RESTS[0]

    def run(self, claim: int, arrays: int, values: int, begun: int, count: int, part: int, chunk: int, threads: int, guess: float) -> Any:
        """Instances from `begun` to before `count`, in ranges of `part`, one for each thread. `guess`: seconds that they would take the
        caller alone. None: they were not run, since another job is, or it is not worth it at the moment; else failures."""
        if not self._busy.acquire(blocking=False):
            return None
        try:
            start = time.perf_counter()
            if guess < ALONE:
                near, self._last = start - self._last < NEAR, start
                if start < self._rests:
                    return None
                if self._asleep or self._helpers < threads - 1:
                    if near:
                        self._rouse(threads - 1)
                    return None
            else:
                self._rouse(threads - 1)
            failed = self._lead(self._place, claim, chunk, count, arrays, values, threads, begun, part)
            if guess < ALONE:
                self._learn(time.perf_counter() - start - guess)
            return self._failures(threads) if failed else ()
        finally:
            self._busy.release()

    def _failures(self, threads: int) -> list[Status]:
        found = [Status.from_buffer_copy(self._board.status[one]) for one in range(threads) if self._board.status[one].kind]
        ctypes.memset(self._place + Board.status.offset, 0, Board.status.size)
        return found

    def _learn(self, lost: float) -> None:
        """Where others want the processors, a helper may lose its own in the midst of a chunk, and the caller would wait for it again and
        again."""
        if lost > STALLED:
            self._rests, self._rest = time.perf_counter() + self._rest, min(2 * self._rest, RESTS[1])
        else:
            self._rest = max(0.99 * self._rest, RESTS[0])

    def _rouse(self, helpers: int) -> None:
        """Let there be so many that are awake, or will be in a moment."""
        while self._helpers < min(helpers, MOST - 1):
            self._helpers += 1
            self._processor = _own_processor()
            threading.Thread(target=self._help, args=(self._board.posted,), name="laminar kernel helper", daemon=True).start()
        if self._asleep:
            with self._change:
                roused = min(self._asleep, helpers)
                self._asleep -= roused
                self._processor = _own_processor()
            for _ in range(roused):
                self._wake.release()

    def _help(self, seen: int) -> None:
        self._step_aside()
        while True:
            seen = self._serve(self._place, seen, WATCH)
            with self._change:
                sleep = self._board.posted == seen
                self._asleep += sleep
            if sleep:
                self._wake.acquire()
                self._step_aside()

    def _step_aside(self) -> None:
        """Not where the caller is: the system likes to wake a thread up on the processor of the one who wakes it."""
        if hasattr(os, "sched_setaffinity"):
            allowed = os.sched_getaffinity(0)
            others = allowed - {self._processor}
            if others and others != allowed and _own_processor() == self._processor:
                os.sched_setaffinity(0, others)
                os.sched_setaffinity(0, allowed)


def _own_processor() -> int:
    """Of this thread; -1 if that cannot be told."""
    look = getattr(_C, "sched_getcpu", None)
    return int(look()) if look is not None else -1


_C: Final = ctypes.CDLL(None) if os.name == "posix" else None
_made: Final[list[Pool]] = []
_making: Final = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_made.clear)  # threads do not survive it


def pool() -> Pool:
    """That of this process."""
    if not _made:
        with _making:
            if not _made:
                _made.append(Pool())
    return _made[0]
