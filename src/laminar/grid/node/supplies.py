"""Supplies: what a task needs is on the disk before it is computed, each of it what its digest says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final, final

import msgspec

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.grid.node.client import Client, Refusal, Unreachable
from laminar.grid.node.home import Home
from laminar.grid.node.tidy import hand_in
from laminar.grid.wire import model_bytes
from laminar.grid.wire.messages import About, Packed, Task

RUNS: Final = 16  # that are spoken of in a request


@final
class Supplies:
    def __init__(self, home: Home, client: Client) -> None:
        self._home, self._client = home, client
        self._abouts: dict[str, About] = {}  # whose files are on the disk
        self._versions: dict[str, tuple[int, str]] = {}  # of runs, the last one that was looked at: number, sha256
        self._asked: set[str] = set()  # runs whose residual was asked for
        self._doubted = False  # is each file on the disk what its name says?

    def newest(self) -> dict[str, int]:
        """Versions on the disk, of the runs that this node works for."""
        found = {run: self._home.newest(run) for run in list(self._versions)[-RUNS:]}
        return {run: number for run, number in found.items() if number is not None}

    def arrived(self, some: Iterable[Packed], data: memoryview, tasks: Iterable[Task]) -> None:
        """Versions that came with tasks, their bytes one after the other. What is no good is fetched later."""
        wanted = {(task.run, task.version.number): task.version for task in tasks}
        at = 0
        for one in some:
            part, at = data[at : at + one.size], at + one.size
            version = wanted.get((one.run, one.number))
            if version is None:
                continue
            try:
                old = self._home.version_path(one.run, one.base).read_bytes()
                plain = model_bytes.unpack(part, version.sha256, version.size, old)
            except (OSError, model_bytes.BadModel):
                continue
            self._keep(one.run, one.number, version.sha256, plain)

    def provide(self, task: Task) -> None:
        """LaminarError where it cannot be had."""
        if task.about not in self._abouts:
            self._abouts = {task.about: self._fetch_about(task.about)}
        version, path = task.version, self._home.version_path(task.run, task.version.number)
        if self._versions.get(task.run) != (version.number, version.sha256):
            if not path.exists() or model_bytes.digest(path.read_bytes()) != version.sha256:
                self._fetch_version(task)
            self._versions[task.run] = version.number, version.sha256
        self._take_over(task.run, self._abouts[task.about])
        self._home.at_work_for(task.run)

    def _fetch_about(self, sha256: str) -> About:
        home = self._home
        if not home.has_file(sha256):
            home.keep_file(sha256, self._client.file(sha256))
        about = msgspec.json.decode(home.file(sha256), type=About)
        for one in about.files:
            if self._doubted and home.has_file(one):
                with contextlib.suppress(LaminarError):
                    home.file(one)  # deletes what is damaged
            if not home.has_file(one):
                home.keep_file(one, self._client.file(one))
        self._doubted = False
        return about

    def forget(self) -> None:
        """Something on the disk is not what it was taken for: all of it is looked at again."""
        self._abouts.clear()
        self._versions.clear()
        self._doubted = True

    def let_go(self) -> None:
        """Runs are gone from the disk (tidy.py): what was handed in is asked for again if there is a task after all."""
        self.forget()
        self._asked.clear()

    def _take_over(self, run: str, about: About) -> None:
        """Go on with what was handed in when this node, or another, has left."""
        path = self._home.residual_path(run)
        if run in self._asked or about.compress.get("kind") in ("none", "fp16") or path.exists():
            return
        if not hand_in(self._home, self._client, run):
            raise Unreachable("whether the server has what this node has kept back is not known yet")
        self._asked.add(run)
        kept = self._client.custody(run)
        if kept is not None:
            atomic.write_bytes(path, kept)

    def _fetch_version(self, task: Task) -> None:
        home, wanted, size = self._home, task.version, task.version.size
        base = home.newest(task.run)
        try:
            old = home.version_path(task.run, base).read_bytes() if base is not None else None
        except OSError:
            old = None
        try:
            try:
                packed = self._client.version(task.run, wanted.number, base if old is not None else None, size)
            except Refusal as error:
                if error.error != "base":
                    raise
                packed, old = self._client.version(task.run, wanted.number, None, size), None
            try:
                plain = model_bytes.unpack(packed, wanted.sha256, size, old)
            except model_bytes.BadModel:
                if old is None:
                    raise
                plain = model_bytes.unpack(self._client.version(task.run, wanted.number, None, size), wanted.sha256, size)
        except Refusal as error:
            raise LaminarError("L503", str(error), hint="") from error
        except model_bytes.BadModel as error:
            raise LaminarError("L403", f"version {wanted.number}: {error}", hint="ask whoever runs the grid") from error
        self._keep(task.run, wanted.number, wanted.sha256, plain)

    def _keep(self, run: str, number: int, sha256: str, plain: bytes) -> None:
        self._home.keep_version(run, number, plain)
        self._versions[run] = number, sha256
