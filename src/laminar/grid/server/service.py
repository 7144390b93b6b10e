"""Service: what the server does for a node. Transactions in, messages out; the same for HTTP, for the simulator and for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final, get_args

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from laminar.core import digest
from laminar.grid.daemons import accounting
from laminar.grid.daemons.accounting import keeps_back, put_back
from laminar.grid.daemons.file_deleter import keeps_files
from laminar.grid.daemons.scheduler import Given, Scheduler
from laminar.grid.daemons.transitioner import again
from laminar.grid.daemons.validator import refuse
from laminar.grid.db import custody, nodes, runs, tasks, uploads
from laminar.grid.db.book import Tx
from laminar.grid.db.moves import move
from laminar.grid.db.nodes import Node
from laminar.grid.db.runs import Run
from laminar.grid.desk import Harmless
from laminar.grid.server import reports
from laminar.grid.states import ResultState, TaskState
from laminar.grid.trust.admission import Refused, Wanted, admit, usual_norm
from laminar.grid.wire.messages import LARGEST, Arrived, Ask, Enrol, Enrolled, Received, Verdict, Work
from laminar.grid.wire.signing import node_id

REMEMBER: Final = 64  # norms of good answers
ROOM: Final = 1 << 20  # bytes of an answer beside its packet
UPLOADING: Final = 120.0  # seconds of lease after the start of an upload, or after each piece of it
SLOWEST: Final = 8 << 10  # bytes per second that an upload needs to continue beyond its lease
FETCHED: Final = 1 << 20  # downloads from this size on extend a lease
ON_THE_WAY: Final = 64 << 10  # bytes per second, the slowest rate assumed for such a download
REFRESH: Final = 64  # answers between two looks at them


class Denied(Harmless):
    """A request that is refused, with an HTTP status and a name, before anything was written for it."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status, self.error = status, error


@dataclass
class _Known:
    """What is used again and again of a run."""

    usual: float | None = None
    answers: int = 0


@final
class Service:
    def __init__(self, name: str, scheduler: Scheduler, clock: Callable[[], float]) -> None:
        self.name, self._scheduler, self._clock = name, scheduler, clock
        self._known: dict[int, _Known] = {}

    @property
    def idle(self) -> bool:
        """Nothing waits to be given out, as far as is known here. Whoever changes that says so (on_work)."""
        return self._scheduler.feeder.empty

    # Coming

    def enrol(self, tx: Tx, asked: Enrol) -> Enrolled:
        now, id = self._clock(), node_id(asked.key)
        before = nodes.get(tx, id, now)
        if before is not None and before.banned is not None:
            raise Denied(403, "banned", before.banned)
        token, why = nodes.use_token(tx, asked.token, now, known=before is not None)
        if token is None:
            raise Denied(401, "token", {"token": "no such token", "revoked": "the token was revoked"}.get(why, f"the token is {why}"))
        return Enrolled(node=nodes.enrol(tx, asked.key, token, asked.facts, now), grid=self.name, now=now)

    def node(self, tx: Tx, id: str) -> Node:
        found = nodes.get(tx, id, self._clock())
        if found is None:
            raise Denied(401, "unknown", f"node {id} is not enrolled here")
        if found.banned is not None:
            raise Denied(403, "banned", found.banned)
        return found

    # Work

    def ask(self, tx: Tx, id: str, asked: Ask) -> Work:
        node, now = self.node(tx, id), self._clock()
        for result, why in asked.cannot:
            self._given_back(tx, id, result, why)
        reports.take(tx, id, asked.report, asked.spent, now)
        if asked.facts is not None:
            nodes.enrol(tx, node.key, node.token, asked.facts, now)
            node = self.node(tx, id)
        tasks.told(tx, id, asked.heard)
        given = self._scheduler.hand_out(tx, node, asked, now)
        return self._work(tx, id, given, now)

    def _work(self, tx: Tx, id: str, given: Given, now: float) -> Work:
        untold = tasks.untold(tx, id)  # until the node says that it has settled them
        if any(row.state == "late" or row.used in ("dropped", "extra") for row in untold):
            accounting.told(tx, id, now)
        return Work(
            tasks=list(given.tasks),
            wait=given.wait,
            why=given.why,
            verdicts=[(row.id, row.state, row.used or "") for row in untold],
            now=now,
        )

    def _given_back(self, tx: Tx, id: str, result: int, why: str) -> None:
        row = tasks.result(tx, result)
        if row is not None and row.node == id and move(tx, result, ResultState.GIVEN_UP, verdict=why[:200]):
            run = runs.get(tx, row.run)
            assert run is not None
            runs.count(tx, run.id, given_back=1)
            self._ask_another(tx, run, row.task)

    def _ask_another(self, tx: Tx, run: Run, task: int) -> None:
        again(tx, run, task, self._clock())
        self._scheduler.feeder.changed()

    def fetch(self, tx: Tx, id: str, size: int) -> None:
        """A node is about to be sent so many bytes."""
        node, most = self.node(tx, id), self._scheduler.bytes_a_day
        if most is not None and node.bytes_today > 2 * most:  # it gets no tasks after once as many: it may finish what it has
            raise Denied(429, "budget", f"its budget of {most} bytes a day is used up twice over")
        nodes.moved_bytes(tx, id, self._clock(), down=size)
        if size >= FETCHED:  # the node sends nothing meanwhile
            leases = {}
            for row in tasks.held_by(tx, id):
                run = runs.get(tx, row.run)
                if run is not None:
                    leases[row.id] = self._longer(run, row, UPLOADING + size / ON_THE_WAY)
            tasks.prolong(tx, leases)

    # Answers

    def deliver(
        self, tx: Tx, id: str, result: int, data: bytes, limit: int, *, at: int = 0, total: int | None = None, asked: Ask | None = None
    ) -> Verdict | int:
        """An answer, or a part of one: then the bytes that are here. In order; what is here already is passed over. What the node says of
        its time when it `asked` for more counts with the answer."""
        said = self._deliver(tx, id, result, data, limit, at, total)
        if asked is not None:
            reports.take(tx, id, asked.report, asked.spent, self._clock())
        return said

    def _deliver(self, tx: Tx, id: str, result: int, data: bytes, limit: int, at: int, total: int | None) -> Verdict | int:
        node, row = self.node(tx, id), self._own(tx, id, result)
        size = len(data) if total is None else total
        run = runs.get(tx, row.run)
        assert run is not None
        most = min(limit, 2 * run.settings.size + ROOM)  # no packet is larger than the values and their places
        if size > most:
            raise Denied(413, "size", f"an answer of {size} bytes, but {most} are allowed")
        if row.state not in ("in progress", "lost"):
            return self._repeated(tx, row)
        if at == 0 and len(data) < size:  # it was computed anew, or never begun: what is here of another one is of no use
            uploads.drop(tx, [result])
        here = 0 if at == 0 and len(data) == size and not row.bytes else uploads.size(tx, result)
        if at > here or at + len(data) > size or not data:
            raise Denied(409, "offset", f"{here} bytes of {size} are here, and the piece is from {at} to {at + len(data)}")
        if at + len(data) > here:
            uploads.add(tx, result, here, data[here - at :])
            nodes.moved_bytes(tx, id, self._clock(), up=len(data))
        if at + len(data) < size:
            tasks.mark(tx, [result], bytes=at + len(data), lease=self._uploading(run, row, at + len(data)))
            return at + len(data)
        return self._answer(tx, node, row, data if not here and len(data) == size else uploads.read(tx, result))

    def here(self, tx: Tx, id: str, result: int) -> Received:
        """How much of an answer has come, and its digest: only the same answer can be gone on with."""
        row = self._own(tx, id, result)
        data = uploads.read(tx, result)
        run = runs.get(tx, row.run)
        if run is not None and row.state == "in progress":  # an upload begins
            tasks.mark(tx, [result], lease=self._uploading(run, row, len(data)))
        return Received(size=len(data), sha256=digest.of_bytes(data))

    def _uploading(self, run: Run, row: Any, here: int) -> float:
        """When the lease of a result ends, given its received bytes: an upload keeps its lease as long as it advances."""
        return self._longer(run, row, UPLOADING, here / SLOWEST)

    def _longer(self, run: Run, row: Any, seconds: float, more: float = 0.0) -> float:
        """When a lease ends that lasts so long from now at least; `more` than twice as long as the run says no lease lasts."""
        most = row.sent + 2 * run.settings.grid.lease + more
        return float(max(row.lease, min(self._clock() + seconds, most)))

    def _own(self, tx: Tx, id: str, result: int) -> Any:
        row = tasks.result(tx, result)
        if row is None:
            raise Denied(404, "result", f"there is no result {result}")
        if row.node != id:
            raise Denied(403, "lease", f"result {result} is not this node's")
        return row

    def _answer(self, tx: Tx, node: Node, row: Any, data: bytes) -> Verdict:
        """All of it is here: is it an answer? When this is committed, it will not be lost."""
        now, id, result = self._clock(), node.id, row.id
        run = runs.get(tx, row.run)
        assert run is not None
        task = tasks.task(tx, row.task)
        if why := self._too_late(run, task):
            put_back(tx, run, id, result, now, accounted=False)
            said = self._late(tx, row, why)
            self._ask_another(tx, run, row.task)  # what waits to be compared with it need not wait any longer
            return said
        known = self._of(tx, run)
        try:
            admitted = admit(data, self._wanted(run, row.id, task, known, accounting.most_values(run, task.progress)))
            seen = accounting.look(tx, run, id, admitted, known.usual, now)
        except Refused as error:
            refuse(tx, run, row, str(error)[:200], now, kind=error.reason)
            self._ask_another(tx, run, row.task)
            return Verdict(result=result, state="invalid", reason=error.reason)
        taken = move(
            tx,
            result,
            ResultState.RETURNED,
            returned=now,
            todo=tasks.VALIDATE,
            head=msgspec.json.encode(admitted.answer.head).decode(),
            sketch=seen.sketch,
            norm=seen.norm,
            bytes=len(data),
        )
        if not taken:
            return self._repeated(tx, row)
        tx.sheets.answered[row.task] = run.id
        runs.count(tx, run.id, answers=1, bytes_up=len(data), dense_bytes=4 * run.settings.layout.numel)
        return Verdict(result=result, state="returned")

    def _repeated(self, tx: Tx, row: Any) -> Verdict:
        """It was here before, and the node did not hear of it."""
        runs.count(tx, row.run, repeated=1)
        known = row.state in get_args(Arrived)
        return Verdict(result=row.id, state=row.state if known else "late", reason="repeated" if known else row.state)

    @staticmethod
    def _too_late(run: Run, task: Any) -> str:
        if run.state not in ("open", "paused"):
            return f"its run is {run.state}"
        if task.state in (TaskState.FAILED.value, TaskState.CANCELLED.value):
            return f"its task is {task.state}"
        how = run.settings.grid
        if how.max_staleness is not None and run.version - task.version > how.max_staleness:
            return f"it began from version {task.version}, and {run.version} is the newest"
        if how.mode == "rounds" and how.late == "drop" and task.round < run.since:
            return f"its round {task.round} is over"
        return ""

    @staticmethod
    def _late(tx: Tx, row: Any, why: str) -> Verdict:
        move(tx, row.id, ResultState.LATE, verdict=why, todo=tasks.DELETE)
        runs.count(tx, row.run, late=1)
        return Verdict(result=row.id, state="late", reason=why[:200])

    @staticmethod
    def _wanted(run: Run, result: int, task: Any, known: _Known, most: int | None) -> Wanted:
        settings = run.settings
        return Wanted(
            result=result,
            version=task.version,
            steps=task.steps,
            batch=settings.recipe.batch,
            layout=settings.layout,
            buffers=settings.buffers,
            compress=settings.grid.compression,
            usual=known.usual,
            most=most,
        )

    # Custody

    def leave_behind(
        self, tx: Tx, id: str, name: str, data: bytes, *, limit: int = LARGEST, at: int = 0, total: int | None = None
    ) -> int | None:
        """A node that leaves hands in what it has kept back, or a part of it: then the bytes that are here. All of it must be what the
        account says, for somebody else will go on with it."""
        run, now = self._known_run(tx, id, name), self._clock()
        if not keeps_files(run, now):
            raise Denied(404, "run", f"the run '{name}' ended long ago")
        numel, size = run.settings.layout.numel, len(data) if total is None else total
        if not keeps_back(run):
            raise Denied(422, "custody", f"nothing is kept back in the run '{name}'")
        if size > (most := min(limit, 4 * numel + ROOM)):
            raise Denied(413, "size", f"{size} bytes of {numel} numbers, but {most} are allowed")
        if at == 0:
            custody.drop(tx, run.id, id)  # it hands in anew
        here = custody.size(tx, run.id, id) if at else 0
        if at != here or at + len(data) > size or not data:
            raise Denied(409, "offset", f"{here} bytes of {size} are here, and the piece is from {at} to {at + len(data)}")
        nodes.moved_bytes(tx, id, now, up=len(data))
        if at + len(data) < size:
            custody.add(tx, run.id, id, at, data, now)
            return at + len(data)
        whole = custody.read(tx, run.id, id) + data if at else data
        custody.keep(tx, run.id, id, self._owed(tx, run, id, whole), now)
        return None

    def _owed(self, tx: Tx, run: Run, id: str, data: bytes) -> bytes:
        """Nothing but what was looked at."""
        try:
            tensors = load(data)
            row = tensors.get("v", tensors.get("error"))
        except SafetensorError as error:
            raise Denied(422, "custody", f"it cannot be read: {error}") from error
        numel = run.settings.layout.numel
        if row is None or row.dtype != np.float32 or row.shape != (numel,) or not np.isfinite(row).all():
            raise Denied(422, "custody", f"a residual of {numel} finite numbers is expected")
        if not accounting.is_owed(tx, run, id, row, self._of(tx, run).usual):
            raise Denied(422, "custody", "it is not what this node should have kept back")
        name_of = "v" if "v" in tensors else "error"
        turn = {"turn": tensors["turn"]} if "turn" in tensors and tensors["turn"].shape == () and tensors["turn"].dtype == np.int64 else {}
        return save({name_of: row, **turn})

    def take_over(self, tx: Tx, id: str, name: str) -> bytes | None:
        """What the node, or one that has left, handed in; again until its next answer, as its reply may get lost."""
        run = self._known_run(tx, id, name)
        found = custody.take(tx, run.id, id, self._clock())
        if found is not None:
            nodes.moved_bytes(tx, id, self._clock(), down=len(found))
        return found

    def _known_run(self, tx: Tx, id: str, name: str) -> Run:
        self.node(tx, id)
        run = runs.named(tx, name)
        if run is None:
            raise Denied(404, "run", f"there is no run '{name}'")
        return run

    def _of(self, tx: Tx, run: Run) -> _Known:
        known = self._known.get(run.id)
        if known is None:
            known = self._known[run.id] = _Known()
        if known.answers % REFRESH == 0:
            known.usual = usual_norm(np.array(tasks.good_norms(tx, run.id, REMEMBER), dtype=np.float64))
        known.answers += 1
        return known
