"""One server on a database: each of two would remember its own requests only, and one could be played again on the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.db.book import Book
from laminar.grid.server.serve import GridServer, Options
from laminar.testing.postgres import postgres, programs, restart


@contextlib.contextmanager
def server(folder: Path, database: str | None = None) -> Iterator[GridServer]:
    made = GridServer(Options(folder, "test", port=0, database=database), TorchLearner())
    try:
        yield made
    finally:
        made.close()


def refused(folder: Path, database: str) -> LaminarError:
    with pytest.raises(LaminarError) as caught, server(folder, database):
        pass
    assert caught.value.code == "L506"
    return caught.value


def test_a_second_server_on_one_sqlite_file_is_refused_whatever_it_calls_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with server(tmp_path / "a"):
        for name in (f"sqlite:///{tmp_path}/a/grid.db", f"sqlite:///{tmp_path}/link/grid.db", f"sqlite:///{tmp_path}/a/../a/grid.db"):
            assert "served by another process already" in refused(tmp_path / "b", name).message
    with server(tmp_path / "b", f"sqlite:///{tmp_path}/a/grid.db"):
        refused(tmp_path / "c", f"sqlite:///{tmp_path}/link/grid.db")
    with server(tmp_path / "c", f"sqlite:///{tmp_path}/own.db"):  # and who was refused has left nothing locked
        pass


@pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed")
def test_a_second_server_on_one_postgresql_database_is_refused(tmp_path: Path) -> None:
    with postgres("fsync=off") as url:
        with server(tmp_path / "a", url) as first:
            assert "pg_terminate_backend(" in refused(tmp_path / "b", url).hint
            with contextlib.closing(Book.open(url)) as daemons, daemons.transaction():  # which are no servers
                pass
            restart(url)
            assert first.desk.do(lambda tx: tx.sheets.nodes.get(tx, "x")) is None  # its session has ended, and it has the database again
            refused(tmp_path / "b", url)
            restart(url)
            with contextlib.closing(Book.open(url)) as rival:  # comes first, this time
                rival.serve(lambda _: None)
                for _ in range(2):
                    with contextlib.suppress(Exception):
                        first.desk.do(lambda tx: tx.sheets.nodes.get(tx, "x"))
                assert first._rival is not None and first._rival.code == "L506"
        with server(tmp_path / "b", url):
            pass
