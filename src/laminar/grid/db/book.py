"""Book: opens the database and gives transactions on it.

    sqlite:///path/grid.db        write-ahead log, every commit on disk before it is acknowledged
    postgresql+psycopg://…        several servers and daemons may share it; rows are claimed with SKIP LOCKED

One writer at a time on SQLite: who writes says so at once (BEGIN IMMEDIATE), so that nobody fails half-way for want of a lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, final

from sqlalchemy import Connection, create_engine, event, insert, select, update
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from laminar.core.errors import LaminarError
from laminar.grid.db import schema
from laminar.grid.db.only_server import OnlyServer
from laminar.grid.db.runs import flush_counts
from laminar.grid.db.times import flush_times
from laminar.grid.db.tx import Hook, Tx

BUSY_MS: Final = 30_000
MAKING: Final = 0x6C616D696E6172  # the lock of PostgreSQL under which tables are made
PRAGMAS: Final = (
    "page_size = 16384",  # of a new database, before all else: an answer of 400 kB is a hundred pages of 4096, each written by itself
    "journal_mode = WAL",
    "synchronous = FULL",
    f"busy_timeout = {BUSY_MS}",
    "foreign_keys = ON",
    "cache_size = -65536",
    # Some systems' SQLite overwrites what is deleted with zeros: the bytes of every answer would be written twice. Nothing secret is here
    # but digests of tokens and one number, which are in pages that stay
    "secure_delete = FAST",
    # Answers are written and soon deleted, and their pages used again: the longer the log, the fewer of them go into the database at all
    "wal_autocheckpoint = 2048",
    "journal_size_limit = 67108864",
)


def with_driver(url: str) -> str:
    """The address as SQLAlchemy takes it; L505 for a database that the grid does not run on."""
    kind, mark, rest = url.partition("://")
    dialect, _, driver = kind.partition("+")
    if not mark or dialect not in ("sqlite", "postgresql", "postgres"):
        raise LaminarError(
            "L505",
            f"--database {_shown(url)}: a grid keeps its tables in SQLite or PostgreSQL"
            + (f", not in {dialect}" if mark else ", given as an address"),
            hint="--database sqlite:///grid.db, or postgresql+psycopg://USER@HOST/NAME",
        )
    return url if dialect == "sqlite" or driver else f"postgresql+psycopg://{rest}"


@final
class Book:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._connection: Connection | None = None  # kept: taking one out of a pool costs as much as a statement
        self.rolled_back: list[Callable[[], None]] = []  # who remembers something of what was written forgets it
        self.only: OnlyServer | None = None  # where it is a server's: no other server has the database
        self.hook: Hook | None = None  # called with every statement before it is executed: a test may raise there

    @classmethod
    def open(cls, url: str) -> Book:
        """L505 where it cannot be opened or is of another format. Tables are made where there are none."""
        url = with_driver(url)
        memory = url in ("sqlite://", "sqlite:///:memory:")
        more: dict[str, Any] = {"poolclass": StaticPool} if memory else {}
        if url.startswith("sqlite"):
            more["connect_args"] = {"check_same_thread": False}  # one thread after the other
        if url.startswith("sqlite:///") and not memory:
            try:
                path = Path(url.removeprefix("sqlite:///").partition("?")[0])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch(mode=0o600)  # there are secrets in it; SQLite gives its other files the mode of this one
                with contextlib.suppress(PermissionError):  # made by another account, which let this one in
                    path.chmod(0o600)
            except OSError as error:
                raise LaminarError("L505", f"the database {url} has no folder: {error.strerror}", hint="give another --database") from error
        try:
            engine = create_engine(url, **more)
        except (SQLAlchemyError, ImportError) as error:
            hint = "pip install 'laminar-train[grid,postgres]'" if "psycopg" in str(error) else "--database sqlite:///grid.db"
            raise LaminarError("L505", f"the database {_shown(url)} cannot be opened: {error}", hint=hint) from error
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _pragmas)
            event.listen(engine, "begin", _begin)
        else:
            event.listen(engine, "connect", _plans)
        book = cls(engine)
        event.listen(engine, "before_cursor_execute", book._before)
        try:
            with engine.begin() as connection:
                if book.postgres:  # server and daemons may begin at the same moment, and each would find no tables
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MAKING})")
                schema.metadata.create_all(connection)
                found = connection.execute(select(schema.meta.c.value).where(schema.meta.c.key == "format")).scalar()
                if found is None:
                    connection.execute(insert(schema.meta).values(key="format", value=str(schema.FORMAT)))
                elif found in schema.ADDED:
                    for statement in schema.ADDED[found]:
                        connection.exec_driver_sql(statement)
                    connection.execute(update(schema.meta).where(schema.meta.c.key == "format").values(value=str(schema.FORMAT)))
                    found = str(schema.FORMAT)
        except DBAPIError as error:
            raise LaminarError(
                "L505",
                f"the database {_shown(url)} cannot be used: {str(error.orig).strip()}",
                hint="look whether its disk is full, its server runs, and the address is right",
            ) from error
        if found is not None and found != str(schema.FORMAT):
            raise LaminarError(
                "L505",
                f"the database {_shown(url)} has format {found}, and this Laminar writes {schema.FORMAT}",
                hint="use the Laminar it was made with, or give another --database",
            )
        return book

    def serve(self, on_loss: Callable[[LaminarError], None]) -> None:
        """L506 where another server has this database. Held until it is closed, or the process ends; `on_loss` where it is lost before."""
        self.only = OnlyServer(self.engine, on_loss)
        with self.transaction():
            pass

    @property
    def postgres(self) -> bool:
        return self.engine.dialect.name == "postgresql"

    @contextlib.contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[Tx]:
        """All of it, or nothing. One at a time: whoever has a book sees to that (desk.py).

        Not `durable`: whatever is killed, it holds; after a power cut it, and what came after it, may never have been. The next one that is
        durable makes it so, too.
        """
        if self._connection is None or self._connection.closed:
            self._connection = self._connected()
        try:
            if not self.postgres:
                _flush(self._connection, durable)
            with self._connection.begin():
                if not durable and self.postgres:
                    self._connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                tx = Tx(self._connection, self.hook)
                yield tx
                tx.sheets.flush(tx)
                flush_counts(tx)
                flush_times(tx)
        except BaseException:
            self._connection.close()  # a database that was restarted is asked anew
            self._connection = None
            for undo in self.rolled_back:
                undo()
            raise

    def _connected(self) -> Connection:
        connection = self.engine.connect()
        try:
            if self.only is not None:
                self.only.on(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self.engine.dispose()
        if self.only is not None:
            self.only.let_go()

    def _before(self, connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:  # noqa: ARG002
        if self.hook is not None:
            self.hook(statement)


def _pragmas(connection: Any, record: Any) -> None:  # noqa: ARG001
    connection.isolation_level = None  # we say BEGIN ourselves
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _flush(connection: Connection, durable: bool) -> None:
    """Before a transaction: in one, SQLite takes no notice. A connection that comes back from the pool is set as it was left."""
    if connection.info.get("durable", True) != durable:
        assert connection.connection.driver_connection is not None
        connection.connection.driver_connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.info["durable"] = durable


def _plans(connection: Any, record: Any) -> None:  # noqa: ARG001
    """For the keys and the tables that there are. One made for any keys, when a grid has just begun, reads whole tables: it took a hundred
    times as long as the right one with 10,000 nodes."""
    connection.execute("SET plan_cache_mode = force_custom_plan")
    connection.commit()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _shown(url: str) -> str:
    """Without a password."""
    head, at, tail = url.rpartition("@")
    return f"{head.split('://')[0]}://…@{tail}" if at else url


__all__ = ["Book", "OperationalError", "Tx"]
