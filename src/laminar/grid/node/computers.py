"""Computers: the two processes that a keeper has, one that computes (worker_process.py) and one that opens data (data_process.py), as one
that does tasks.

The one that computes runs graphs of strangers, and has no network. So before a task whose data are not on the disk, the other one opens
them and leaves them there. It is started when it is needed, and ended when it was not needed for IDLE seconds, or its memory is wanted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

import msgspec

from laminar.core.errors import LaminarError
from laminar.data.sources.places import cache_folder
from laminar.data.spec import DataSpec
from laminar.grid.node import data_files
from laminar.grid.node.computer import Computer
from laminar.grid.node.home import Home
from laminar.grid.node.limits import PRIVATE, PUBLIC, Limits
from laminar.grid.node.sources import data_of
from laminar.grid.wire.messages import About, Task

IDLE: Final = 10.0  # seconds: as it starts within half a second, a task that needs it again costs little more
# Beginnings of names of variables: ways into the network, and where data are
NETWORK: Final = (
    *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_", "LOCALDOMAIN", "RES_OPTIONS", "LAMINAR_DATA"),
)


@final
class Computers:
    def __init__(self, home: Home, limits: Limits, kernels: Path | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._home, self._limits, self._clock = home, limits, clock
        cache = {"LAMINAR_CACHE": str(cache_folder())}
        self._worker = Computer(home.root, limits, [str(kernels)] if kernels is not None else [], environment=cache)
        scratch = {"TMPDIR": str(home.root / "data")}
        words = [PRIVATE if limits.private else PUBLIC]
        self._opener = Computer(
            home.root, limits, words, module="laminar.grid.node.data_process", variables=NETWORK, environment=cache | scratch
        )
        self._about: tuple[str, About] | None = None  # the last one
        self._waiting: dict[str, Any] | None = None  # what is to be done when its data are there
        self._doing: str | None = None  # the name of the data of what is being done
        self._refused: dict[str, Any] | None = None  # what is wrong with what was asked
        self._used = 0.0  # when data were opened
        self._fetching = 0.0  # seconds for which the data of what is being done came over the network
        self._resting = False

    @property
    def pid(self) -> int | None:
        """Of the process that computes."""
        return self._worker.pid

    @property
    def pids(self) -> list[int]:
        return [pid for pid in (self._worker.pid, self._opener.pid) if pid is not None]

    @property
    def torch(self) -> str:
        return self._worker.torch

    def ask(self, asked: dict[str, Any]) -> None:
        self._end_idle()
        self._doing, self._fetching = None, 0.0
        if "do" not in asked:
            self._worker.ask(asked)
            return
        try:
            spec = self._data_of(msgspec.convert(asked["do"], Task))
        except LaminarError as error:
            self._refused = {"error": error.message, "code": error.code}
            return
        except (msgspec.MsgspecError, OSError) as error:  # a server may send anything
            self._refused = {"error": f"{type(error).__name__}: {error}", "code": ""}
            return
        self._doing = data_files.name_of(spec)
        try:
            os.utime(self._home.opened_path(self._doing))  # used: it is not what goes next
        except OSError:
            self._waiting = asked
            self._opener.ask({"open": spec})
            return
        self._worker.ask(asked)

    def answer(self, timeout: float) -> dict[str, Any] | None:
        """As Computer.answer."""
        if self._refused is not None:
            refused, self._refused = self._refused, None
            return refused
        if self._waiting is None:
            said = self._worker.answer(timeout)
            if said is not None and said.get("code") == "died" and self._doing is not None:
                data_files.drop(self._home.opened_path(self._doing))  # perhaps they are what it died of
            self._end_idle()
            return said if said is None or not self._fetching else said | {"fetching": self._fetching}
        said = self._opener.answer(timeout)
        if said is not None:
            waiting, self._waiting, self._used = self._waiting, None, self._clock()
            if "error" in said:
                return said
            self._fetching = said["fetching"]
            self._worker.ask(waiting)
            self._worker.rest(self._resting)  # the owner has come while data were opened
        return None

    def rest(self, resting: bool) -> None:
        """Stop them where they are, or let them go on."""
        self._resting = resting
        self._worker.rest(resting)
        self._opener.rest(resting)

    def memory(self) -> int:
        """Bytes of both. The one that opens data has nothing to do while the other computes: it is ended where both have too much."""
        held = self._opener.memory()
        both = self._worker.memory() + held
        if held and self._waiting is None and self._limits.memory is not None and both > self._limits.memory:
            self._opener.end()
            return both - held
        return both

    def end(self, why: str = "", code: str = "died") -> None:
        busy = self._worker if self._waiting is None else self._opener
        for process in (self._worker, self._opener):
            process.end(*((why, code) if process is busy else ()))

    def _data_of(self, task: Task) -> DataSpec:
        if self._about is None or self._about[0] != task.about:
            self._about = task.about, msgspec.json.decode(self._home.file(task.about), type=About)
        return data_of(self._about[1], task.sample)

    def _end_idle(self) -> None:
        if self._waiting is None and self._opener.pid is not None and self._clock() - self._used > IDLE:
            self._opener.end()
