"""Only server: one server on a database, and no other, whichever folder it was started in.

Two servers would each remember the requests that they have seen (server/gate.py), and not those of the other: a request that went to one
could be played again on the other. Daemons elsewhere are no servers: nobody sends them requests.

    SQLite        a lock on a file beside the database
    PostgreSQL    a lock of the session that writes; a session that breaks gives it up, and the next one takes it again
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from filelock import FileLock, Timeout
from sqlalchemy import Connection
from sqlalchemy.engine import Engine

from laminar.core.errors import LaminarError

SERVING: Final = 0x6C616D  # with the schema: the lock of PostgreSQL under which a database is served
_TAKE: Final = f"SELECT pg_try_advisory_lock({SERVING}, hashtext(current_schema()))"
_WHO: Final = f"""SELECT l.pid, coalesce(host(a.client_addr), 'its own machine') FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.classid = {SERVING}
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


@final
class OnlyServer:
    def __init__(self, engine: Engine, on_loss: Callable[[LaminarError], None]) -> None:
        """`on_loss`: another server has taken the database while this one was cut off."""
        self._on_loss = on_loss
        self._served = False
        self._lock: FileLock | None = None
        name = engine.url.database
        if engine.dialect.name == "sqlite" and name not in (None, "", ":memory:"):
            path = Path(str(name).removeprefix("file:")).resolve()  # by whatever name it is opened
            self._lock = FileLock(path.with_name(path.name + ".serving"), mode=0o600, thread_local=False)
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                raise LaminarError(
                    "L506",
                    f"the database {path} is served by another process already: two would not know which requests the other has seen",
                    hint="end that one, or give this one another --database",
                ) from None

    def on(self, connection: Connection) -> None:
        """A session has begun, in which all is written from now on. L506 where another server has the database."""
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
            f"the database is served by another server already, on {where}: two would not know which requests the other has seen",
            hint=f"end that one; where its machine is gone, SELECT pg_terminate_backend({pid}) in the database; daemons may be many: "
            "laminar grid daemon",
        )
        if self._served:
            self._on_loss(refusal)
        raise refusal

    def let_go(self) -> None:
        """A session of PostgreSQL that has ended has let go of its own."""
        if self._lock is not None:
            self._lock.release()
