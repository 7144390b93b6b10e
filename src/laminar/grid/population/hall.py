"""Hall: a server in a box. The real service, daemons and database, without network or threads, on a clock that stands where it is put."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import NDArray

from laminar.core.seeds import derive
from laminar.grid.daemons.accounting import secret_of
from laminar.grid.daemons.assimilator import Assimilator, Learner
from laminar.grid.daemons.feeder import Feeder
from laminar.grid.daemons.office import Office
from laminar.grid.daemons.scheduler import Scheduler
from laminar.grid.db import nodes, runs, versions
from laminar.grid.db.book import Book, Tx
from laminar.grid.db.runs import Run
from laminar.grid.desk import DirectDesk
from laminar.grid.server import commands
from laminar.grid.server.service import Service
from laminar.grid.settings import Settings
from laminar.grid.wire.messages import PROTOCOL, About, Ask, Enrol, Facts, Verdict, Work


@final
class Hall:
    def __init__(
        self,
        learner: Learner,
        *,
        seed: int = 0,
        database: str = "sqlite://",
        start: float = 1_700_000_000.0,
        on_work: Callable[[], None] = lambda: None,
    ) -> None:
        self.now = start
        self.book = Book.open(database)
        self.desk = DirectDesk(self.book)
        self.feeder = Feeder()
        self.learner = learner
        self.assimilator = Assimilator(learner)
        scheduler = Scheduler(self.feeder, random.Random(seed))
        self.book.rolled_back.append(scheduler.forget)
        self.service = Service("population", scheduler, self.clock)
        self.office = Office(self.desk, self.assimilator, self.clock, feeder=self.feeder, on_work=on_work)
        self.desk.do(lambda tx: secret_of(tx, derive(seed, "secret")))
        self._tokens: dict[str, str] = {}  # by owner; "": anybody's

    def clock(self) -> float:
        return self.now

    def begin(self, name: str, settings: Settings, first: bytes, about: About | None = None, files: dict[str, bytes] | None = None) -> int:
        """Open a run; its number."""
        import msgspec

        described = about or About(
            run=name,
            graphs={},
            parameters=settings.parameters,
            buffers={},
            fixed=None,
            aliases={},
            frozen=[],
            recipe={},
            data={},
            compress={},
            gradients=settings.gradients,
            classes=None,
            sketch=0,
        )

        def put(tx: Tx) -> int:
            for data in (files or {}).values():
                versions.put_file(tx, self.now, data)
            told = versions.put_file(tx, self.now, msgspec.json.encode(described))
            asked = commands.Begin(name=name, layer=name, settings=settings, about=told, version=versions.put_file(tx, self.now, first))
            commands.begin(tx, asked, self.learner, self.now)
            run = runs.named(tx, name)
            assert run is not None
            return run.id

        id = self.desk.do(put)
        self.feeder.changed()
        self.office.turn()
        return id

    def enrol(self, key: str, name: str, *, owner: str | None = None, trusted: bool = False) -> str:
        """A node; `owner` has a token of their own."""
        token = self.token(owner)
        facts = Facts(name=name, cores=1, memory=1 << 30, platform="population", laminar="0")
        id = self.desk.do(lambda tx: self.service.enrol(tx, Enrol(protocol=PROTOCOL, token=token, key=key, facts=facts))).node
        if trusted:
            self.desk.do(lambda tx: commands.trust(tx, id, True))
        return id

    def token(self, owner: str | None = None) -> str:
        name = owner or ""
        if name not in self._tokens:
            self._tokens[name] = self.desk.do(lambda tx: nodes.make_token(tx, self.now, name=name))
        return self._tokens[name]

    def ask(self, node: str, asked: Ask | None = None) -> Work:
        return self.desk.do(lambda tx: self.service.ask(tx, node, asked or Ask(want=1)))

    def answer(self, node: str, result: int, data: bytes, asked: Ask | None = None) -> Verdict:
        said = self.desk.do(lambda tx: self.service.deliver(tx, node, result, data, 1 << 30, asked=asked))
        assert isinstance(said, Verdict)
        return said

    def run(self, id: int) -> Run:
        found = self.desk.do(lambda tx: runs.get(tx, id))
        assert found is not None
        return found

    def version(self, run: int, number: int) -> NDArray[np.float32]:
        row = self.desk.do(lambda tx: versions.get(tx, run, number))
        return np.frombuffer(row.data, "<f4")

    def counts(self, run: int) -> dict[str, int]:
        return self.desk.do(lambda tx: runs.counts_of(tx, run))

    def close(self) -> None:
        self.book.close()
