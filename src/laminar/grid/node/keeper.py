"""Keeper: the loop of a node. Asks for work, fetches what it needs, has it done, brings the answer, and minds the owner meanwhile.

Everything that is under way is on the disk (home.py): after a reboot, or a kill, it goes on where it was. One task is computed while the
next is fetched, so that a node seldom waits for its line.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

import msgspec
import psutil

from laminar.core.errors import LaminarError
from laminar.grid.node.client import Backoff, Client, Refusal, Unreachable
from laminar.grid.node.home import Home
from laminar.grid.node.limits import Limits, rests
from laminar.grid.node.machine import Watcher, facts
from laminar.grid.wire import model_bytes
from laminar.grid.wire.messages import About, Ask, Facts, Task

WAIT: Final = 20.0  # seconds that the server may hold a request
LOOK: Final = 0.5  # seconds between looks at the machine
NEW_GROUP: Final = 0x200  # CREATE_NEW_PROCESS_GROUP of Windows
Tell = Callable[[str], None]


@final
class Computer:
    """The process that computes; started when there is work, and again when it has died. It can be stopped at any moment, and go on."""

    def __init__(self, home: Path, limits: Limits) -> None:
        self._home, self._limits = home, limits
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.torch = ""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        if self.pid is not None:
            return
        cores = psutil.cpu_count() or 1
        threads = max(1, int(cores * self._limits.cpu))
        share = min(1.0, cores * self._limits.cpu / threads)
        words = [sys.executable, "-m", "laminar.grid.node.worker_process", str(self._home), str(threads), str(share)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self._lines = queue.SimpleQueue()
        # in a session of its own: Ctrl-C is for the keeper
        apart: dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {"creationflags": NEW_GROUP}
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, **apart)
        threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def ask(self, asked: dict[str, Any]) -> None:
        self.start()
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, OSError):  # it has died: `answer` says so
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()

    def answer(self, timeout: float) -> dict[str, Any] | None:
        """What it says; None: not yet. A process that has died says an error."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            return None
        if line is None:
            code = self._process.wait() if self._process is not None else None
            self._process = None
            return {"error": f"the computing process ended with {code}", "code": "died"}
        said: dict[str, Any] = json.loads(line)
        if "ready" in said:
            self.torch = said["ready"]
            return self.answer(timeout)
        return said

    def rest(self, resting: bool) -> None:
        """Stop it where it is, or let it go on."""
        if self.pid is not None:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(self.pid)
                process.suspend() if resting else process.resume()

    def memory(self) -> int:
        if self.pid is None:
            return 0
        try:
            return int(psutil.Process(self.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def end(self) -> None:
        if self._process is not None:
            self.rest(False)
            self._process.kill()
            self._process.wait()
            self._process = None


@final
class Keeper:
    def __init__(self, home: Home, client: Client, limits: Limits, name: str, tell: Tell, *, stop: threading.Event | None = None) -> None:
        self._home, self._client, self._limits, self._name, self._tell = home, client, limits, name, tell
        self._computer = Computer(home.root, limits)
        self._watcher = Watcher(home.root)
        self._stop = stop or threading.Event()
        self._backoff = Backoff()
        self._speed, self._worked, self._since = 0.0, 0.0, time.monotonic()
        self._resting, self._look_again = "", 0.0
        self._ready: list[Task] = []  # fetched, and not computed yet
        self._cannot: list[tuple[int, str]] = []
        self._samples: dict[str, None] = {}  # run/sample on this disk
        self._kept: dict[int, Task] = {}  # answered, and not known to be used
        self._told_torch = ""
        self._asked: set[str] = set()  # runs whose residual was asked for
        self.done = 0

    def run(self, most: int | None = None) -> int:
        """Until it is told to stop, or so many answers were brought. How many."""
        try:
            self._ready = self._home.tasks()
            if self._ready:
                self._tell(f"goes on with {len(self._ready)} tasks from before")
            while not self._stop.is_set() and (most is None or self.done < most):
                if self._minds_owner():
                    self._stop.wait(LOOK)
                    continue
                try:
                    self._turn()
                except (Unreachable, OSError, msgspec.DecodeError) as error:
                    wait = self._backoff.failed()
                    self._tell(f"{error}; again in {wait:.0f} s")
                    self._stop.wait(wait)
                except Refusal as error:
                    if error.error in ("banned", "unknown", "token"):
                        raise LaminarError(
                            "L503",
                            f"the server turns this node away: {error}",
                            hint="ask whoever runs the grid, or join again with another token",
                        ) from error
                    self._tell(f"refused: {error}")
                    self._stop.wait(self._backoff.failed())
        finally:
            self._computer.end()
        return self.done

    # The owner

    def _minds_owner(self) -> str:
        """Why the node rests, if it must; what computes is stopped within LOOK."""
        if time.monotonic() < self._look_again:
            return self._resting
        self._look_again = time.monotonic() + LOOK
        own = [os.getpid(), *([self._computer.pid] if self._computer.pid else [])]
        why = rests(self._limits, self._watcher.look(own))
        if not why and self._limits.memory is not None and self._computer.memory() > self._limits.memory:
            why = f"tasks need more than the {self._limits.memory >> 20} MB that the owner allows"
            self._computer.end()
        if why != self._resting:
            self._computer.rest(bool(why))
            self._tell(f"rests: {why}" if why else "works")
            self._resting = why
        return why

    # A turn

    def _turn(self) -> None:
        if not self._ready:
            self._fetch(wait=WAIT)
        if self._ready:
            self._compute(self._ready.pop(0))

    def _fetch(self, *, wait: float) -> None:
        asked = Ask(
            want=1,
            wait=wait,
            has=list(self._samples)[-64:],
            holds=[task.result for task in self._ready],
            speed=self._speed,
            available=self._available(),
            cannot=self._cannot,
            facts=self._new_facts(),
        )
        work = self._client.work(asked)
        self._backoff.worked()
        self._cannot = []
        self._settle(work.verdicts)
        for task in work.tasks:
            self._home.note_task(task)
            self._ready.append(task)
        if not work.tasks and work.why and work.why != "nothing to do":
            self._tell(work.why)
            self._stop.wait(min(work.wait, 60.0))

    def _new_facts(self) -> Facts | None:
        """What was not known when the node joined: which torch it has."""
        if not self._computer.torch or self._told_torch == self._computer.torch:
            return None
        self._told_torch = self._computer.torch
        return facts(self._name, self._limits, self._told_torch)

    def _available(self) -> float:
        return min(1.0, self._worked / max(time.monotonic() - self._since, 1.0))

    def _compute(self, task: Task) -> None:
        try:
            self._provide(task)
        except LaminarError as error:
            self._give_back(task, error.message)
            return
        began = time.monotonic()
        said = self._do(task)
        if said is None:  # told to stop: the task stays on the disk
            return
        if "error" in said:
            self._give_back(task, str(said["error"]))
            return
        self._worked += time.monotonic() - began
        if said.get("seconds"):
            speed = said["samples"] / max(said["seconds"], 1e-6)
            self._speed = speed if not self._speed else 0.7 * self._speed + 0.3 * speed
        self._bring(task)

    def _do(self, task: Task) -> dict[str, Any] | None:
        told = msgspec.to_builtins(task)
        if self._home.answer_path(task.result).exists():
            self._computer.ask({"whole": told})
            if (self._wait() or {}).get("whole"):
                return {"result": task.result}
            self._home.answer_path(task.result).unlink(missing_ok=True)
        self._computer.ask({"do": told})
        return self._wait()

    def _wait(self) -> dict[str, Any] | None:
        """For what the computing process says; the owner comes first meanwhile."""
        while not self._stop.is_set():
            said = self._computer.answer(LOOK)
            if said is not None:
                return said
            self._minds_owner()
        return None

    def _give_back(self, task: Task, why: str) -> None:
        self._tell(f"task {task.task}: {why}")
        self._cannot.append((task.result, " ".join(why.split())[:200]))
        self._home.forget_task(task.result)
        self._home.answer_path(task.result).unlink(missing_ok=True)
        self._stop.wait(self._backoff.failed())

    def _bring(self, task: Task) -> None:
        path = self._home.answer_path(task.result)
        data = path.read_bytes()
        while not self._stop.is_set():
            try:
                verdict = self._client.answer(task.result, data)
                break
            except Unreachable as error:
                wait = self._backoff.failed()
                self._tell(f"{error}; again in {wait:.0f} s")
                self._stop.wait(wait)
            except Refusal as error:
                if error.error in ("banned", "unknown", "token"):
                    raise
                self._give_back(task, str(error))
                return
        else:
            return
        self._backoff.worked()
        self._home.forget_task(task.result)
        self.done += 1
        if verdict.state == "returned":
            if self._home.residual_path(task.run).exists():
                self._kept[task.result] = task
            else:
                path.unlink(missing_ok=True)
        else:
            self._tell(f"task {task.task}: {verdict.state} ({verdict.reason})")
            self._kept[task.result] = task
            self._settle([(task.result, verdict.state, "")])

    def _settle(self, verdicts: list[tuple[int, str, str]]) -> None:
        """What became of answers: those that were not used go back into the residual."""
        unused: dict[tuple[str, str], list[int]] = {}
        for result, state, used in verdicts:
            task = self._kept.pop(result, None)
            if task is not None and (state == "late" or used in ("dropped", "extra")) and self._home.residual_path(task.run).exists():
                unused.setdefault((task.run, task.about), []).append(result)
            elif task is not None and state == "invalid":  # what the server has on account is no longer what is here: begin anew
                self._home.answer_path(result).unlink(missing_ok=True)
                self._computer.ask({"forget": task.run})
                self._wait()
            else:
                self._home.answer_path(result).unlink(missing_ok=True)
        for (run, about), results in unused.items():
            self._computer.ask({"put back": {"run": run, "about": about, "results": results}})
            self._wait()

    # What a task needs

    def _provide(self, task: Task) -> None:
        """Files and the version are on the disk afterwards, each of them what its digest says."""
        home = self._home
        if not home.has_file(task.about):
            home.keep_file(task.about, self._client.file(task.about))
        about = msgspec.json.decode(home.file(task.about), type=About)
        for sha256 in [*about.graphs.values(), *([about.fixed] if about.fixed else [])]:
            if not home.has_file(sha256):
                home.keep_file(sha256, self._client.file(sha256))
        path = home.version_path(task.run, task.version.number)
        if not path.exists() or model_bytes.digest(path.read_bytes()) != task.version.sha256:
            self._fetch_version(task)
        self._take_over(task.run, about)
        if task.sample is not None:
            self._samples[f"{task.run}/{task.sample}"] = None

    def _take_over(self, run: str, about: About) -> None:
        """Go on with what was handed in when this node, or another, has left."""
        path = self._home.residual_path(run)
        if run in self._asked or path.exists() or about.compress.get("kind") in ("none", "fp16"):
            return
        self._asked.add(run)
        kept = self._client.custody(run)
        if kept is not None:
            path.write_bytes(kept)

    def _fetch_version(self, task: Task) -> None:
        home, wanted = self._home, task.version
        base = home.newest(task.run)
        old = home.version_path(task.run, base).read_bytes() if base is not None else None
        try:
            try:
                packed = self._client.version(task.run, wanted.number, base)
            except Refusal as error:
                if error.error != "base":
                    raise
                packed, old = self._client.version(task.run, wanted.number, None), None
            try:
                plain = model_bytes.unpack(packed, wanted.sha256, wanted.size, old)
            except model_bytes.BadModel:
                if old is None:
                    raise
                plain = model_bytes.unpack(self._client.version(task.run, wanted.number, None), wanted.sha256, wanted.size)
        except Refusal as error:
            raise LaminarError("L503", str(error), hint="") from error
        except model_bytes.BadModel as error:
            raise LaminarError("L403", f"version {wanted.number}: {error}", hint="ask whoever runs the grid") from error
        home.keep_version(task.run, wanted.number, plain)
