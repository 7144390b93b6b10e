"""Only server: a database has one server, whichever folder it was started in.

Each server remembers only the requests that it has seen itself (server/gate.py), so a request to one of two servers could be replayed on
the other. Daemons on other machines are allowed, because nobody sends them requests.

    SQLite        a lock on a file beside the database
    PostgreSQL    an advisory lock of the writing session; a session that breaks releases it, and the next one takes it again
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from filelock import FileLock, Timeout
from sqlalchemy import Connection
from sqlalchemy.engine import Engine

from laminar.core.errors import LaminarError

SERVING: Final = 0x6C616D  # with the schema: the key of PostgreSQL's advisory lock
_TAKE: Final = f"SELECT pg_try_advisory_lock({SERVING}, hashtext(current_schema()))"
_WHO: Final = f"""SELECT l.pid, coalesce(host(a.client_addr), 'its own machine') FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.classid = {SERVING}
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


@final
class OnlyServer:
    def __init__(self, engine: Engine, on_loss: Callable[[LaminarError], None]) -> None:
        """`on_loss` is called when another server has taken the database while this one was disconnected."""
        self._on_loss = on_loss
        self._served = False
        self._lock: FileLock | None = None
        name = engine.url.database
        if engine.dialect.name == "sqlite" and name not in (None, "", ":memory:"):
            path = Path(str(name).removeprefix("file:")).resolve()  # the same lock for every name of the file
            self._lock = FileLock(path.with_name(path.name + ".serving"), mode=0o600, thread_local=False)
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                raise LaminarError(
                    "L506",
                    f"the database {path} is served by another process already: a request could be replayed from one to the other",
                    hint="end the other server, or start this one with another --database",
                ) from None

    def on(self, connection: Connection) -> None:
        """Take the lock in a new session, through which all writes go from now on. Raises L506 if another server has the database."""
        if connection.dialect.name != "postgresql":
            return
        assert connection.connection.driver_connection is not None
        session = connection.connection.driver_connection
        taken = session.execute(_TAKE).fetchone()[0]
        rivals = [] if taken else session.execute(_WHO).fetchall()
        session.commit()
        if taken:
            self._served = True
            return
        pid, where = rivals[0] if rivals else ("?", "another machine")
        refusal = LaminarError(
            "L506",
            f"the database is served by another server already, on {where}: a request could be replayed from one to the other",
            hint=f"end the other server; if its machine is gone, run SELECT pg_terminate_backend({pid}) in the database; for more daemons: "
            "laminar grid daemon",
        )
        if self._served:
            self._on_loss(refusal)
        raise refusal

    def let_go(self) -> None:
        """Release SQLite's lock; PostgreSQL releases its own when the session ends."""
        if self._lock is not None:
            self._lock.release()
