"""Threads that help: chunks of instances are claimed one by one, by the caller and by helpers, until none is left.

Claiming, waiting for work and waiting for the others is native code without the interpreter's lock. Helpers look out for work for a while
before they sleep, because to wake one up takes longer than many a job.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from typing import Final

from laminar.kernels.compile.assembly import Code, Module, Word, number
from laminar.kernels.compile.host import linked, object_code

CLAIM: Final = "claim"
WATCH: Final = 4096  # looks before a helper sleeps; some hundred microseconds
PATIENCE: Final = 512  # looks before another one gets the processor
PAUSES: Final = 4
MOST: Final = 64


class Job(ctypes.Structure):
    """What is run: `claim` of a kernel, and its arguments. `following`: the next instance that nobody has claimed."""

    _fields_ = [
        ("claim", ctypes.c_int64),
        ("following", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("chunk", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("arrays", ctypes.c_int64),
        ("values", ctypes.c_int64),
        ("status", ctypes.c_int64),  # one for each that takes part
        ("size", ctypes.c_int64),  # of a status
    ]


class Board(ctypes.Structure):
    """Where work is posted. `seats`: helpers that may still join; `done`: those that joined and are through."""

    _fields_ = [("posted", ctypes.c_int64), ("seats", ctypes.c_int64), ("done", ctypes.c_int64), ("job", ctypes.c_int64)]


def write_claim(module: Module, run: str) -> None:
    """`int32 claim(Job*, Status*)`: chunk after chunk; the first failure ends it for all."""
    job, status = Word("%job", "ptr"), Word("%status", "ptr")
    code = Code(module, CLAIM, [(job, ""), (status, "")], "i32", "nounwind")
    places = {name: code.address("i64", job, number("i64", place)) for place, (name, *_) in enumerate(Job._fields_)}
    end, chunk, count = (code.load("i64", places[name]) for name in ("end", "chunk", "count"))
    arrays, values = (code.load("ptr", places[name]) for name in ("arrays", "values"))
    again, work, after, failed = (code.fresh(word) for word in ("again", "work", "after", "failed"))
    code.label(again)
    begin = code.op(f"atomicrmw add {places['following']}, {chunk} monotonic", "i64")
    code.branch(code.compare("slt", begin, end), work, after)
    code.label(work)
    stop = code.intrinsic("smin", code.binary("add", begin, chunk), end)
    result = code.op(f"call i32 @{run}({begin}, {stop}, {count}, {arrays}, {values}, {status})", "i32")
    code.branch(code.compare("eq", result, number("i32", 0)), again, failed)
    code.label(failed)
    code.op(f"atomicrmw add {places['following']}, {end} monotonic", "i64")
    code.give(number("i32", 1))
    code.label(after)
    code.give(number("i32", 0))
    code.finish()


def _text() -> str:
    module = Module()
    _write_serve(module)
    _write_lead(module)
    return str(module)


def _fields(code: Code, board: Word) -> dict[str, Word]:
    return {name: code.address("i64", board, number("i64", place)) for place, (name, *_) in enumerate(Board._fields_)}


def _take_part(code: Code, job: Word, seat: Word) -> None:
    status, size = (code.load("i64", code.address("i64", job, number("i64", place))) for place in (7, 8))
    mine = code.op(f"inttoptr i64 {code.binary('add', status, code.binary('mul', size, seat)).name} to ptr", "ptr")
    claim = code.load("ptr", job)
    code.op(f"call i32 {claim.name}({job}, {mine})", "i32")


def _write_serve(module: Module) -> None:
    """`int64 serve(Board*, int64 seen, int64 looks)`: wait for something newer than `seen`, take part; gives the newest that was seen."""
    board, seen, looks = Word("%board", "ptr"), Word("%seen", "i64"), Word("%looks", "i64")
    code = Code(module, "serve", [(board, ""), (seen, ""), (looks, "")], "i64", "nounwind")
    fields = _fields(code, board)
    left = code.room("i64")
    code.store(looks, left)
    again, wait, late, come, join = (code.fresh(word) for word in ("again", "wait", "late", "come", "join"))
    code.label(again)
    now = code.op(f"load atomic i64, {fields['posted']} acquire, align 8", "i64")
    code.branch(code.compare("ne", now, seen), come, wait)
    code.label(wait)
    fewer = code.binary("sub", code.load("i64", left), number("i64", 1))
    code.store(fewer, left)
    _pause(code, fewer)
    code.branch(code.compare("sgt", fewer, number("i64", 0)), again, late)
    code.label(late)
    code.give(seen)
    code.label(come)
    seat = code.op(f"atomicrmw sub {fields['seats']}, i64 1 acq_rel", "i64")
    after = code.fresh("after")
    code.branch(code.compare("sgt", seat, number("i64", 0)), join, after)
    code.label(join)
    _take_part(code, code.load("ptr", fields["job"]), seat)
    code.op(f"atomicrmw add {fields['done']}, i64 1 release", "i64")
    code.label(after)
    code.give(now)
    code.finish()


def _write_lead(module: Module) -> None:
    """`int32 lead(Board*, Job*, int64 seats)`: take part, let nobody else join, wait for those that did."""
    board, job, seats = Word("%board", "ptr"), Word("%job", "ptr"), Word("%seats", "i64")
    code = Code(module, "lead", [(board, ""), (job, ""), (seats, "")], "i32", "nounwind")
    fields = _fields(code, board)
    _take_part(code, job, number("i64", 0))
    left = code.op(f"atomicrmw xchg {fields['seats']}, i64 -1000000 acq_rel", "i64")
    joined = code.binary("sub", seats, code.intrinsic("smax", left, number("i64", 0)))
    again, wait, after = (code.fresh(word) for word in ("again", "wait", "after"))
    looks = code.room("i64")
    code.store(number("i64", 1), looks)
    code.label(again)
    done = code.op(f"load atomic i64, {fields['done']} acquire, align 8", "i64")
    code.branch(code.compare("sge", done, joined), after, wait)
    code.label(wait)
    now = code.load("i64", looks)
    _pause(code, now)
    code.store(code.binary("add", now, number("i64", 1)), looks)
    code.jump(again)
    code.label(after)
    code.give(number("i32", 0))
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
        self._lead = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(found["lead"])
        self._board = Board()
        self._wake = threading.Semaphore(0)
        self._asleep = 0
        self._helpers = 0
        self._busy = threading.Lock()
        self._change = threading.Lock()
        self._processor = -1  # where the last caller was

    def run(self, job: Job, helpers: int) -> bool:
        """False: it was not run, since another one is."""
        if not self._busy.acquire(blocking=False):
            return False
        try:
            self._hire(helpers)
            board = self._board
            board.job, board.done, board.seats = ctypes.addressof(job), 0, helpers
            with self._change:
                board.posted += 1
                sleeping = self._asleep
                if sleeping:
                    self._processor = _own_processor()
            for _ in range(min(sleeping, helpers)):
                self._wake.release()
            self._lead(ctypes.addressof(board), ctypes.addressof(job), helpers)
        finally:
            self._busy.release()
        return True

    def _hire(self, helpers: int) -> None:
        while self._helpers < min(helpers, MOST):
            self._helpers += 1
            self._processor = _own_processor()
            threading.Thread(target=self._help, args=(self._board.posted,), name="laminar kernel helper", daemon=True).start()

    def _help(self, seen: int) -> None:
        address = ctypes.addressof(self._board)
        self._step_aside()
        while True:
            now = self._serve(address, seen, WATCH)
            if now == seen:
                with self._change:
                    sleep = self._board.posted == seen
                    self._asleep += sleep
                if sleep:
                    self._wake.acquire()
                    self._step_aside()
                    with self._change:
                        self._asleep -= 1
            seen = now

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
_made: dict[int, Pool] = {}
_making = threading.Lock()


def pool() -> Pool:
    """That of this process: threads do not survive a fork."""
    with _making:
        process = os.getpid()
        if process not in _made:
            _made.clear()
            _made[process] = Pool()
        return _made[process]
