"""What became of an answer: told until it is heard, and settled once, whatever is killed and whichever reply gets lost in between."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from safetensors.torch import load

from laminar.core.atomic import explaining_os_errors
from laminar.core.errors import LaminarError
from laminar.grid.describe import Described, version_of
from laminar.grid.node import sent
from laminar.grid.node.client import Client, Unreachable
from laminar.grid.node.home import Home, Server
from laminar.grid.node.keeper import Keeper
from laminar.grid.node.leave import leave
from laminar.grid.node.limits import Limits
from laminar.grid.node.sent import Sent
from laminar.grid.node.worker import Worker
from laminar.grid.wire import signing
from laminar.grid.wire.messages import Ask, Task, Verdict, Work
from laminar.train.compression import TopK
from laminar.train.on_grid import Grid
from tests.torch.grid.test_grid_custody import SPARSE, Sparse, trained
from tests.torch.grid.test_node_worker import change_in, job, node, task

DROPPED = (1, "valid", "dropped")


class Scripted:
    """A server that says what it was told to, one thing after the other, and remembers what it was asked. Then the node is to stop."""

    def __init__(self, *script: Work | Verdict | Unreachable) -> None:
        self.script, self.asked, self.stop = list(script), list[Ask](), threading.Event()
        self.client = Client("http://127.0.0.1:9", signing.Key.make())

    def keeper(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> Keeper:
        monkeypatch.setattr(Client, "work", lambda _, asked: self._next(asked))
        monkeypatch.setattr(Client, "answer", lambda _, result, data, asked=None: self._next(asked))  # noqa: ARG005
        monkeypatch.setattr(Client, "custody", lambda *_: None)
        monkeypatch.setattr("laminar.grid.node.keeper.Backoff.failed", lambda _: 0.0)
        return Keeper(home, self.client, Limits(battery=True), "n", lambda _: None, stop=self.stop)

    def _next(self, asked: Ask | None) -> Work | Verdict:
        if asked is not None:
            self.asked.append(asked)
        said = self.script.pop(0)
        if not self.script:
            self.stop.set()
        if isinstance(said, Unreachable):
            raise said
        return said


@pytest.fixture
def sparse(tmp_path: Path) -> tuple[Home, Described, Task]:
    made, described = job(tmp_path, Grid(local_steps=2, compress=TopK(sparsity=0.9)))
    version = version_of(made)
    home, _ = node(tmp_path, described, version)
    given = task(described, version, steps=2, result=1)
    return home, described, msgspec.structs.replace(given, version=msgspec.structs.replace(given.version, sha256=_sha(version)))


def _sha(data: bytes) -> str:
    from laminar.core import digest

    return digest.of_bytes(data)


def residual(home: Home) -> np.ndarray:
    found: np.ndarray = load(home.residual_path("run").read_bytes())["v"].numpy()
    return found


def test_a_node_killed_between_bringing_and_hearing_puts_back_what_was_not_used(
    sparse: tuple[Home, Described, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, described, given = sparse
    first = Scripted(Work(tasks=[given]), Verdict(result=1, state="returned"))
    first.keeper(home, monkeypatch).run()  # at its end the process that computes is killed
    packet, kept = change_in(home, described)[0], residual(home).copy()
    assert home.tasks() == [] and [one.result for one in home.sent()] == [1] and np.count_nonzero(packet)

    told = Work(verdicts=[DROPPED])
    again = Scripted(told, Unreachable("the reply got lost"), told, Work())
    again.keeper(home, monkeypatch).run()
    assert residual(home) == pytest.approx(kept + packet, abs=1e-5)  # once
    assert [asked.heard for asked in again.asked] == [[], [1], [1], [1]]  # until the server has answered, and whenever it is told
    assert home.sent() == [] and not home.answer_path(1).exists()


def test_a_node_hands_in_what_it_kept_of_a_quiet_run(sparse: tuple[Home, Described, Task], monkeypatch: pytest.MonkeyPatch) -> None:
    """And no process has it in its memory from then on."""
    home, _, given = sparse
    server = Scripted(Work(tasks=[given]), Verdict(result=1, state="valid"), Work(verdicts=[(1, "valid", "")]))
    keeper, handed_in = server.keeper(home, monkeypatch), list[bytes]()

    def custody(_: Client, run: str, data: bytes | None = None) -> None:
        if data is not None:
            assert (run, keeper._computer.pid) == ("run", None)
            handed_in.append(data)

    def work(_: Client, asked: Ask) -> Work | Verdict:
        if len(server.script) == 1:  # long after the first task
            assert keeper._computer.pid is not None
            for path in [*(home.root / "files").iterdir(), home.version_path("run", 0).parent, home.residual_path("run")]:
                os.utime(path, (1.0, 1.0))
            keeper._tidy_again = 0.0
        return server._next(asked)

    monkeypatch.setattr(Client, "custody", custody)
    monkeypatch.setattr(Client, "work", work)
    keeper.run()
    assert "v" in load(handed_in[0]) and len(handed_in) == 1
    assert [name for name in ("files", "versions", "residuals", "sent", "answers") if any((home.root / name).iterdir())] == []


def test_a_process_killed_while_it_puts_back_does_it_once(sparse: tuple[Home, Described, Task], monkeypatch: pytest.MonkeyPatch) -> None:
    home, described, given = sparse
    Worker(home).do(given)
    packet, kept = change_in(home, described)[0], residual(home).copy()

    def killed(_: Worker, *some: object, **more: object) -> None:
        if any(some) or more:
            raise KeyboardInterrupt

    for where, done in (("_keep_residual", kept), ("_delete_answers", kept + packet)):  # before and after the residual is on the disk
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Worker, where, killed)
            Worker(home).put_back("run", described.about_sha256, [1])
        assert home.answer_path(1).exists() and residual(home) == pytest.approx(done, abs=1e-5)
    later = Worker(home)
    for _ in range(2):
        later.put_back("run", described.about_sha256, [1])
    assert residual(home) == pytest.approx(kept + packet, abs=1e-5) and not home.answer_path(1).exists()


def test_what_could_not_be_written_is_not_in_the_residual_that_counts(
    sparse: tuple[Home, Described, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, described, given = sparse
    worker = Worker(home)
    worker.do(given)
    packet, kept = change_in(home, described)[0], residual(home).copy()
    with monkeypatch.context() as patched, pytest.raises(OSError, match="no space"):
        patched.setattr(Worker, "_keep_residual", lambda *_, **__: (_ for _ in ()).throw(OSError("no space")))
        worker.put_back("run", described.about_sha256, [1])
    worker.put_back("run", described.about_sha256, [1])
    assert residual(home) == pytest.approx(kept + packet, abs=1e-5)


def test_a_refusal_that_is_told_twice_takes_one_residual(sparse: tuple[Home, Described, Task]) -> None:
    home, described, given = sparse
    worker = Worker(home)
    worker.do(given)
    worker.forget("run", [1])
    assert not home.residual_path("run").exists() and not home.answer_path(1).exists()
    worker.do(msgspec.structs.replace(given, result=2))
    assert change_in(home, described, 2)[1].head.fresh
    kept = residual(home).copy()
    worker.forget("run", [1])
    assert (residual(home) == kept).all()


def test_an_answer_that_waits_is_still_whole_after_another_was_put_back(sparse: tuple[Home, Described, Task]) -> None:
    home, described, given = sparse
    worker, later = Worker(home), msgspec.structs.replace(given, result=2)
    worker.do(given)
    worker.do(later)
    Worker(home).put_back("run", described.about_sha256, [1])
    assert Worker(home).whole(later)


def test_so_many_answers_are_kept_and_no_more(sparse: tuple[Home, Described, Task], monkeypatch: pytest.MonkeyPatch) -> None:
    home, _, given = sparse
    monkeypatch.setattr(sent, "MOST", 3)
    for at_most, first, left in ((1 << 30, 1, [3, 4, 5]), (150, 6, [10])):
        monkeypatch.setattr(sent, "MOST_BYTES", at_most)
        kept = Sent(home)
        for result in range(first, first + 5):
            one = msgspec.structs.replace(given, result=result)
            home.note_task(one)
            home.answer_path(result).write_bytes(bytes(100))
            kept.add(one)
        assert [one.result for one in home.sent()] == left == sorted(int(path.name) for path in (home.root / "answers").iterdir())
    home.answer_path(77).write_bytes(b"of a task that nobody knows")
    home.sweep()
    assert not home.answer_path(77).exists() and len(Sent(home)) == 1


def test_the_server_tells_until_it_is_heard_and_listens_to_the_node_alone() -> None:
    crowd = Sparse(["honest"] * 3, SPARSE)
    trained(crowd, 0, 2)

    def verdicts(number: int, **more: list[int]) -> list[int]:
        return [result for result, _, _ in crowd.hall.ask(crowd.ids[number], Ask(want=0, **more)).verdicts]  # type: ignore[arg-type]

    told = verdicts(0)
    assert told and verdicts(0) == told  # the first reply got lost
    verdicts(1, heard=told)
    assert verdicts(0) == told
    assert verdicts(0, heard=told[:1]) == told[1:] and verdicts(0, heard=told) == [] == verdicts(0)


def test_a_task_stays_while_the_disk_is_full(sparse: tuple[Home, Described, Task], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is neither given back nor forgotten: where it is the only node, nobody else could do it."""
    home, _, given = sparse
    server = Scripted(Work(tasks=[given]), Verdict(result=1, state="returned"))
    keeper, told = server.keeper(home, monkeypatch), list[str]()
    monkeypatch.setattr(keeper, "_tell", told.append)
    do, note, left = keeper._do, home.note_task, [2, 1]

    def full(number: int) -> None:
        if left[number]:
            left[number] -= 1
            raise OSError(errno.ENOSPC, "No space left on device")

    def noted(task: Task) -> None:
        with explaining_os_errors(home.root):
            full(1)
        note(task)

    def done(task: Task) -> dict[str, object] | None:
        try:
            with explaining_os_errors(home.root):
                full(0)
        except LaminarError as error:
            return {"error": error.message, "code": error.code}
        return do(task)

    monkeypatch.setattr(home, "note_task", noted)
    monkeypatch.setattr(keeper, "_do", done)
    server.script.insert(0, Work(tasks=[given]))  # it could not be noted, and is sent again
    assert keeper.run() == 1
    assert left == [0, 0] and all(asked.cannot == [] for asked in server.asked)
    assert sum("no space left" in line for line in told) == 3


def test_a_rest_in_the_middle_of_a_task_is_no_slowness(sparse: tuple[Home, Described, Task], monkeypatch: pytest.MonkeyPatch) -> None:
    home, _, given = sparse
    keeper = Scripted().keeper(home, monkeypatch)
    monkeypatch.setattr(keeper, "_bring", lambda _: None)

    def computed(seconds: float, rest: float) -> float:
        def done(_: Task) -> dict[str, float]:
            keeper._rested += rest
            return {"samples": 100, "seconds": seconds + rest}

        monkeypatch.setattr(keeper, "_do", done)
        keeper._compute(given)
        return keeper._asks().speed

    assert computed(1.0, rest=99.0) == pytest.approx(1.0)  # nothing better is known
    slow = computed(1.0, rest=0.0)
    assert slow > 30.0
    assert computed(1.0, rest=3600.0) == slow
    assert computed(1.0, rest=0.0) > slow


def test_who_came_back_while_the_server_was_asked_comes_first(
    sparse: tuple[Home, Described, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, _, given = sparse
    server = Scripted(Work(tasks=[given], wait=0.0, why="", verdicts=[], now=0.0))
    keeper = server.keeper(home, monkeypatch)
    answer = server._next

    def paused_meanwhile(_: Client, asked: Ask) -> Work | Verdict:
        (home.root / "paused").touch()
        return answer(asked)

    monkeypatch.setattr(Client, "work", paused_meanwhile)
    monkeypatch.setattr(keeper, "_compute", lambda _: pytest.fail("it computes although its owner said no"))
    keeper._turn()
    assert keeper._ready == [given] and home.tasks() == [given]


def test_who_leaves_brings_what_is_ready_before_what_is_kept_back(
    sparse: tuple[Home, Described, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, _, given = sparse
    home.pin(Server(url="http://127.0.0.1:9", key="", node="n", grid="g"))
    begun = msgspec.structs.replace(given, result=2)
    for one in (given, begun):
        home.note_task(one)
    Worker(home).do(given)  # the server was away, and the owner has ended the node
    done = list[tuple[str, object]]()
    monkeypatch.setattr(Client, "answer", lambda _, result, data: done.append(("answer", result)))  # noqa: ARG005
    monkeypatch.setattr(Client, "custody", lambda _, run, data: done.append(("custody", run)))  # noqa: ARG005
    monkeypatch.setattr(Client, "work", lambda _, asked: done.append(("back", [result for result, _ in asked.cannot])))
    told = leave(home)
    assert done == [("answer", 1), ("custody", given.run), ("back", [2])]
    assert told == {"brought": 1, "given_back": 1, "handed_in": 1, "refused": 0}


def test_a_node_that_starts_again_knows_what_it_knew(sparse: tuple[Home, Described, Task], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that starts at login would begin every day as one that always works."""
    home, _, given = sparse
    server = Scripted(Work(tasks=[given]), Verdict(result=1, state="valid"))
    before = server.keeper(home, monkeypatch)
    before._habits.spent(3000.0, resting=True, now=time.time())
    before._habits.spent(1000.0, resting=False, now=time.time())
    before.run()
    asked = Scripted().keeper(home, monkeypatch)._asks()
    assert asked.available == pytest.approx(0.25, abs=0.02) and asked.speed > 0
