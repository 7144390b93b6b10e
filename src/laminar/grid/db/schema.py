"""Schema: the tables of a grid. `FORMAT` changes with them. An older database gets what `ADDED` says, or is refused with what to
do."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

from laminar.grid.utilization import PARTS, Part

FORMAT: Final = 5
_TIMES: Final = (  # of format 5
    *(f"ALTER TABLE nodes ADD COLUMN {part} FLOAT NOT NULL DEFAULT 0" for part in PARTS),
    *(f"ALTER TABLE rounds ADD COLUMN {part} FLOAT NOT NULL DEFAULT 0" for part in PARTS),
    "ALTER TABLE results ADD COLUMN computing FLOAT NOT NULL DEFAULT 0",
    "ALTER TABLE nodes ADD COLUMN report BIGINT NOT NULL DEFAULT 0",
)
ADDED: Final = {
    "3": (
        "ALTER TABLE nodes ADD COLUMN up FLOAT NOT NULL DEFAULT 0",
        "ALTER TABLE nodes ADD COLUMN down FLOAT NOT NULL DEFAULT 0",
        *_TIMES,
    ),
    "4": _TIMES,
}
# Conditions of indexes: most results are over and done with, and need be in none of them. Statements say them in the same words.
UNSENT: Final = "state = 'unsent'"
IN_PROGRESS: Final = "state = 'in progress'"
metadata = MetaData()
# SQLite counts up only what it calls INTEGER
Serial = BigInteger().with_variant(Integer, "sqlite")


def _some(name: str, *columns: str, where: str) -> Index:
    """An index of some of the rows."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def _seconds(*parts: str) -> list[Column[Any]]:
    """Of nodes' time, as they say (utilization.py)."""
    return [Column(part, Float, nullable=False, default=0.0, server_default="0") for part in parts]


meta = Table("meta", metadata, Column("key", String(40), primary_key=True), Column("value", Text, nullable=False))

tokens = Table(
    "tokens",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),  # of the secret, which is nowhere
    Column("name", String(80), nullable=False),  # of whoever got it: nodes of one token count as one owner
    Column("uses", Integer),  # that are left; NULL: any number
    Column("expires", Float),
    Column("revoked", Boolean, nullable=False, default=False),
    Column("made", Float, nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("id", String(20), primary_key=True),
    Column("number", Integer, nullable=False, unique=True),  # for people
    Column("name", String(80), nullable=False),
    Column("key", String(44), nullable=False),
    Column("token", Serial, ForeignKey("tokens.id"), nullable=False),
    Column("facts", Text, nullable=False),  # JSON
    Column("enrolled", Float, nullable=False),
    Column("seen", Float, nullable=False),
    Column("banned", String(200)),  # why; NULL: it is not
    Column("trusted", Boolean, nullable=False, default=False),  # its word is taken, and it checks others
    Column("speed", Float, nullable=False, default=0.0),  # samples a second
    Column("available", Float, nullable=False, default=1.0),
    Column("streak", Integer, nullable=False, default=0),  # answers in a row that were compared and found good
    Column("valid", Integer, nullable=False, default=0),
    Column("agreed", Integer, nullable=False, default=0),  # of these, compared with others
    Column("invalid", Integer, nullable=False, default=0),
    Column("lost", Integer, nullable=False, default=0),
    Column("quota", Integer, nullable=False),  # tasks that it may have in a day
    Column("day", Integer, nullable=False, default=0),  # since 1970, that the next counts are of
    Column("sent_today", Integer, nullable=False, default=0),
    Column("bytes_today", BigInteger, nullable=False, default=0),
    Column("bytes_down", BigInteger, nullable=False, default=0),
    Column("bytes_up", BigInteger, nullable=False, default=0),
    Column("credit", Float, nullable=False, default=0.0),  # samples of valid answers
    Column("up", Float, nullable=False, default=0.0, server_default="0"),  # bytes a second of its line; 0: not known
    Column("down", Float, nullable=False, default=0.0, server_default="0"),
    *_seconds(*PARTS),  # since it joined
    Column("report", BigInteger, nullable=False, default=0, server_default="0"),  # of its time, the last that was heard
    Index("nodes_by_token", "token"),
    postgresql_with={"fillfactor": 60},  # room for a changed row beside the old one: then no index is touched
)

runs = Table(
    "runs",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("name", String(80), nullable=False, unique=True),
    Column("layer", String(80), nullable=False),
    Column("state", String(12), nullable=False),  # open, paused, done, stopped
    Column("settings", Text, nullable=False),  # JSON: settings.py
    Column("about", String(64), nullable=False),  # file of the run's description
    Column("size", BigInteger, nullable=False),  # bytes of a version
    Column("aggregator", Text, nullable=False),  # JSON of its state
    Column("version", Integer, nullable=False),
    Column("round", Integer, nullable=False, default=-1),  # that is open; -1: none
    Column("since", Integer, nullable=False, default=0),  # answers to rounds before this one are late
    Column("wakes", Float),  # when the aggregator is to be told that time has passed
    Column("sequence", BigInteger, nullable=False, default=0),  # answers that the aggregator was given
    Column("position", BigInteger, nullable=False, default=0),  # steps that tasks were made for
    Column("made", Float, nullable=False),
    Column("ended", Float),
    Column("why", String(200), nullable=False, default=""),
)

files = Table(
    "files",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("at", Float, nullable=False, index=True),  # when it was uploaded last
    Column("data", LargeBinary, nullable=False),
)

versions = Table(
    "versions",
    metadata,
    Column("run", Serial, nullable=False),
    Column("version", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("data", LargeBinary),  # plain bytes; NULL: deleted
    Column("optimizer", LargeBinary),  # of the server; only the newest has it
    Column("made", Float, nullable=False),
    Column("metrics", Text),  # JSON: what a test of it gave
    PrimaryKeyConstraint("run", "version"),
)

rounds = Table(
    "rounds",
    metadata,
    Column("run", Serial, nullable=False),
    Column("round", Integer, nullable=False),
    Column("version", Integer, nullable=False),  # it trains from
    Column("opened", Float, nullable=False),
    Column("deadline", Float),
    Column("wanted", Integer, nullable=False),
    Column("tasks", Integer, nullable=False, default=0),
    Column("closed", Float),
    Column("answers", Integer, nullable=False, default=0),
    Column("why", String(12), nullable=False, default=""),
    Column("stepped", Boolean, nullable=False, default=False),
    *_seconds(*PARTS),
    PrimaryKeyConstraint("run", "round"),
)

times = Table(  # of nodes, for a run (times.py)
    "times",
    metadata,
    Column("run", Serial, nullable=False),
    Column("node", String(20), nullable=False),
    *_seconds(*PARTS),
    PrimaryKeyConstraint("run", "node"),
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("run", Serial, nullable=False),
    Column("round", Integer, nullable=False),
    Column("version", Integer),  # NULL: that of the moment in which it is given out first
    Column("sample", BigInteger),
    Column("epoch", Integer, nullable=False),
    Column("first", Integer, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("progress", Float, nullable=False),
    Column("state", String(12), nullable=False),
    Column("needs", Integer, nullable=False, default=1),  # answers that must agree
    Column("attempts", Integer, nullable=False, default=0),
    Column("made", Float, nullable=False),
    Index("tasks_by_round", "run", "round"),
    postgresql_with={"fillfactor": 60},
    sqlite_autoincrement=True,
)

results = Table(
    "results",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("task", Serial, nullable=False, index=True),
    Column("run", Serial, nullable=False),
    Column("state", String(12), nullable=False),
    Column("todo", String(12)),  # what a daemon is to do with it
    Column("priority", Integer, nullable=False, default=0),
    Column("node", String(20)),
    Column("check", Boolean, nullable=False, default=False),  # of a task that was done before: to compare
    Column("sent", Float),
    Column("lease", Float),  # when it ends
    Column("returned", Float),
    Column("head", Text),  # JSON of the answer's head
    Column("sketch", LargeBinary),
    Column("norm", Float),
    Column("verdict", String(200), nullable=False, default=""),  # why it is in its state
    Column("used", String(12)),  # what the aggregator did with it: held, applied, dropped
    Column("tell", String(20)),  # the node that does not know the verdict yet
    Column("bytes", BigInteger, nullable=False, default=0),
    *_seconds(Part.COMPUTING),  # while it may still be used
    _some("results_unsent", "priority", "id", where=UNSENT),
    _some("results_by_lease", "lease", where=IN_PROGRESS),
    _some("results_by_node", "node", where=IN_PROGRESS),
    _some("results_to_do", "todo", "id", where="todo IS NOT NULL"),
    _some("results_to_tell", "tell", where="tell IS NOT NULL"),
    sqlite_autoincrement=True,
)

pieces = Table(
    "pieces",
    metadata,
    Column("result", Serial, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    PrimaryKeyConstraint("result", "at"),
)

residuals = Table(
    "residuals",
    metadata,
    Column("run", Serial, nullable=False),
    Column("node", String(20), nullable=False),
    Column("account", LargeBinary, nullable=False),  # sketch of what the node keeps back
    Column("at", Float, nullable=False),
    PrimaryKeyConstraint("run", "node"),
)

custody = Table(  # residuals of nodes that have left (custody.py)
    "custody",
    metadata,
    Column("run", Serial, nullable=False),
    Column("node", String(20), nullable=False),
    Column("at", BigInteger, nullable=False),  # where the piece begins; a whole one is in one
    Column("data", LargeBinary, nullable=False),
    Column("whole", Boolean, nullable=False),
    Column("taken", Boolean, nullable=False, default=False),  # by this node, which goes on with it
    Column("since", Float, nullable=False),
    PrimaryKeyConstraint("run", "node", "at"),
)

counts = Table(
    "counts",
    metadata,
    Column("run", Serial, nullable=False),
    Column("what", String(80), nullable=False),
    Column("count", BigInteger, nullable=False),
    PrimaryKeyConstraint("run", "what"),
)
