"""Serve: the process. Server, database and daemons in one; it ends when it is told to, and loses nothing when it is not asked."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import msgspec
from filelock import FileLock, Timeout
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from laminar.core import atomic
from laminar.core.clock import SYSTEM
from laminar.core.errors import LaminarError
from laminar.core.heap import keep_freed_memory
from laminar.grid.daemons.assimilator import Assimilator, Learner
from laminar.grid.daemons.feeder import Feeder
from laminar.grid.daemons.office import NAMES, Office
from laminar.grid.daemons.scheduler import Scheduler
from laminar.grid.db import nodes
from laminar.grid.db.book import Book
from laminar.grid.desk import ThreadDesk
from laminar.grid.server.admin_routes import AdminRoutes
from laminar.grid.server.batch import Batch
from laminar.grid.server.door import Door
from laminar.grid.server.gate import Gate
from laminar.grid.server.listening import Listening, listen
from laminar.grid.server.openapi import openapi
from laminar.grid.server.pages import Pages
from laminar.grid.server.patience import PatientConfig, Seldom, connections_for, open_files
from laminar.grid.server.routes import NodeRoutes
from laminar.grid.server.service import Service
from laminar.grid.wire.messages import ADMITTED, LARGEST, PORT, Problem
from laminar.grid.wire.signing import Key, fingerprint

FILE: Final = "server.json"  # in the grid's folder: how commands on this machine reach it


@dataclass(frozen=True)
class Options:
    folder: Path  # .laminar/grid
    name: str
    host: str = "127.0.0.1"
    port: int = PORT
    database: str | None = None  # None: SQLite in the folder
    certificate: tuple[Path, Path] | None = None  # and its key
    authority: Path | None = None  # that has signed the certificate, where it is the grid's own
    address: str | None = None  # by which nodes reach it, where that is not what it listens on
    bytes_a_day: int | None = None
    admit: int | None = ADMITTED  # nodes that the first token admits; None: any number
    daemons: bool = True
    connections: int | None = None  # at once; None: as many as there may be open files


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    admin: str
    view: str
    join: str


@final
class GridServer:
    def __init__(self, options: Options, learner: Learner, clock: Callable[[], float] = SYSTEM.now) -> None:
        self.options = options
        options.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _take(options.folder)
        try:
            self.key = Key.kept(options.folder / "key")
            self.secrets = _secrets(options.folder)
            book = Book.open(options.database or f"sqlite:///{options.folder / 'grid.db'}")
            try:
                book.serve(self._lose)
            except BaseException:
                book.close()
                raise
        except BaseException:
            self._lock.release()
            raise
        self._rival: LaminarError | None = None
        self.desk = ThreadDesk(book)
        self._book = book
        feeder = Feeder()
        assimilator = Assimilator(learner)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Listening | None = None
        only = NAMES if options.daemons else ()
        self.office = Office(self.desk, assimilator, clock, feeder=feeder, on_work=self._there_is_work, only=only)
        self.desk.together = Batch(self.office)
        scheduler = Scheduler(feeder, bytes_a_day=options.bytes_a_day)
        book.rolled_back.append(scheduler.forget)
        self.service = Service(options.name, scheduler, clock)
        gate = self.gate = Gate(clock, admin=self.secrets.admin, view=self.secrets.view, limit=LARGEST)
        self._routes = NodeRoutes(self.service, self.desk, gate, self.key, clock)

        def changed() -> None:
            feeder.changed()
            self.office.wake()
            self._there_is_work()

        admin = AdminRoutes(self._routes, gate, assimilator, learner, clock, changed, options.bytes_a_day)
        pages = Pages(self._routes, gate, clock)
        self.app = Starlette(
            routes=[*self._routes.routes(), *admin.routes(), *pages.routes(), openapi(self._routes.safely)],
            lifespan=self._life,
            exception_handlers={HTTPException: self._problem},
        )
        self.desk.do(self._first_token)

    def _first_token(self, tx: Any) -> None:
        """The one that `grid serve` prints; a database that has lost it gets it again."""
        token, why = nodes.use_token(tx, self.secrets.join, time.time(), known=True)
        if token is None and why == "token":
            nodes.make_token(tx, time.time(), secret=self.secrets.join, uses=self.options.admit)
        if why != "revoked":
            self._routes.is_good(self.secrets.join)

    @contextlib.asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:  # noqa: ARG002
        self._loop = asyncio.get_running_loop()
        self.office.start()
        yield
        self.office.close()

    async def _problem(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        name = {404: "path", 405: "method"}.get(error.status_code, "request")
        told = Problem(error=name, message=str(error.detail)[:200], now=time.time())
        found = self._routes.reply(request, told, error.status_code)
        found.headers.update(error.headers or {})
        return found

    def _there_is_work(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._routes.there_is_work)

    def _let_go(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._routes.close)

    def _lose(self, refusal: LaminarError) -> None:
        """End this server, because another one has taken the database, and requests could be replayed between them."""
        self._rival = refusal
        self.stop()

    def stop(self) -> None:
        """From another thread: `run` ends."""
        if self._server is not None:
            self._server.handle_exit(signal.SIGTERM, None)

    def close(self) -> None:
        self.desk.close()
        self._book.close()
        self._lock.release()

    def run(self, ready: Callable[[dict[str, str]], None]) -> None:
        """Until Ctrl-C or SIGTERM. L405 where it cannot listen."""
        options = self.options
        listening = listen(options.host, options.port)
        scheme = "https" if options.certificate else "http"
        port = listening.getsockname()[1]
        host = socket.getfqdn() if options.host in ("0.0.0.0", "::") else f"[{options.host}]" if ":" in options.host else options.host
        url = options.address or f"{scheme}://{host}:{port}"
        told = {"url": url, "token": self.secrets.join, "key": self.key.public}
        about = {
            **told,
            "local": f"{scheme}://{'127.0.0.1' if options.host in ('0.0.0.0', '::') else host}:{port}",
            "ca": str(options.authority) if options.authority else None,
            "admin": self.secrets.admin,
            "view": self.secrets.view,
            "pid": os.getpid(),
            "fingerprint": fingerprint(self.key.public),
        }
        atomic.write_bytes(options.folder / FILE, msgspec.json.encode(about), mode=0o600)
        self.door = self.gate.door = Door(options.connections or connections_for(open_files()), self.gate.count)
        config = PatientConfig(
            self.app,
            self.door,
            options.certificate,
            log_level="warning",
            access_log=False,
            ws="none",
            lifespan="on",
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=5,
        )
        if threading.current_thread() is threading.main_thread():  # the process is its own
            settle()
        server = self._server = Listening(config, lambda: ready(told), self._let_go)
        seldom, loggers = Seldom(self.gate.count), [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
        for one in loggers:
            one.addFilter(seldom)
        try:
            server.run(sockets=[listening])
        finally:
            for one in loggers:
                one.removeFilter(seldom)
            with contextlib.suppress(OSError):
                (options.folder / FILE).unlink()
            self.close()
        if self._rival is not None:
            raise self._rival


def _take(folder: Path) -> FileLock:
    """L506 if another process serves from this folder. Held until this one ends, however it ends."""
    lock = FileLock(folder / "lock", thread_local=False)  # whoever ends the server may be another thread
    try:
        lock.acquire(timeout=0)
    except Timeout:
        try:
            about = msgspec.json.decode((folder / FILE).read_bytes())
            who = f"by process {about['pid']} at {about['url']}"
        except (OSError, msgspec.DecodeError, KeyError, TypeError):  # it has just begun, or is about to end
            who = "by another process"
        raise LaminarError(
            "L506", f"a grid is served from {folder} already, {who}", hint="end that one, or serve from a folder of its own"
        ) from None
    return lock


def settle() -> None:
    """What is loaded stays: the garbage collector need not look through it time and again, which was a fifth of a request's time. And
    memory that was freed is kept: each answer comes and goes, and the system would clear its pages every time."""
    gc.collect()
    gc.freeze()
    keep_freed_memory()


def _secrets(folder: Path) -> Secrets:
    path = folder / "secrets.json"
    if not path.exists():
        made = Secrets(admin=secrets.token_urlsafe(32), view=secrets.token_urlsafe(16), join=secrets.token_urlsafe(24))
        atomic.write_bytes(path, msgspec.json.encode(made), mode=0o600)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Secrets)
    except msgspec.DecodeError as error:
        raise LaminarError(
            "L502", f"{path} cannot be read: {error}", hint="delete it; commands and new nodes then need the new tokens"
        ) from error
