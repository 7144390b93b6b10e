"""Read a machine file: nodes, link and stragglers of a cluster, or desktops of a grid.

Every mistake names file, line and the nearest valid word.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NoReturn, final

import msgspec

from laminar.core.errors import LaminarError, docs
from laminar.core.figures import many
from laminar.core.nearest import did_you_mean, nearest
from laminar.core.sizes import parse_bytes
from laminar.core.toml_words import in_toml_words
from laminar.plan.desktops import KINDS, Churn, Desktops
from laminar.plan.machine import NOWHERE, Link, Machine, Node, Stragglers
from laminar.plan.machine_words import bytes_a_second, seconds
from laminar.stack.locate import line_of

EXAMPLE: Final = 'node = [{ count = 4, cores = 8, memory = "16GB" }] and link = { bandwidth = "1Gbit/s", latency = "0.2ms" }'
PAGE: Final = docs("ref-machine-file.md")
MOST: Final = 4096  # nodes, and cores of one: as many as a strategy may have workers
LEAST_MEMORY: Final = 16 * 10**6  # bytes; less is a number whose unit was forgotten

Steps = tuple[str | int, ...]


class Written(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class NodeTable(Written, frozen=True, kw_only=True):
    cores: int
    memory: str | int
    name: str = "node"
    count: int = 1
    speed: float = 1.0


class LinkTable(Written, frozen=True, kw_only=True):
    bandwidth: str
    latency: str


class SlowTable(Written, frozen=True, kw_only=True):
    share: float
    factor: float


class StragglersTable(Written, frozen=True, kw_only=True):
    spread: float = 0.0
    slow: SlowTable | None = None


class GridTable(Written, frozen=True, kw_only=True):
    churn: str = "desktop"
    server: str = "1Gbit/s"
    on: float | None = None
    off: float | None = None
    spread: float | None = None
    loses: float | None = None


class MachineTable(Written, frozen=True, kw_only=True):
    node: list[NodeTable]
    name: str | None = None
    link: LinkTable | None = None
    stragglers: StragglersTable = StragglersTable()
    grid: GridTable | None = None


_TABLES: Final[dict[Steps, type[Written]]] = {
    (): MachineTable,
    ("node",): NodeTable,
    ("link",): LinkTable,
    ("stragglers",): StragglersTable,
    ("stragglers", "slow"): SlowTable,
    ("grid",): GridTable,
}
_FORM: Final = {
    "node": "a table [[node]] with cores and memory",
    "cores": "cores = 4",
    "memory": 'memory = "16GB"',
    "bandwidth": 'bandwidth = "1Gbit/s"',
    "latency": 'latency = "0.2ms"',
    "share": "share = 0.1",
    "factor": "factor = 4",
    "server": 'server = "1Gbit/s"',
}
_AT: Final = re.compile(r" - at `\$(.*)`$")
_STEP: Final = re.compile(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]")


def read_machine(path: Path) -> Machine:
    """L013 if there is none at `path`, or none that can be used."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # Windows' editors begin a file with a byte-order mark
    except FileNotFoundError:
        raise LaminarError("L013", f"there is no machine file {path}", hint=f"write one: {EXAMPLE}; {PAGE}") from None
    except UnicodeDecodeError as error:
        raise LaminarError("L013", f"{path.name} is not UTF-8 text: {error}", hint="save it as UTF-8") from None
    except OSError as error:
        raise LaminarError("L013", f"{path} cannot be read: {error.strerror}", hint="name a file that you may read") from None
    return parse_machine(text, path.name)


def parse_machine(text: str, file: str) -> Machine:
    """`file`: what messages call it."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        where = f"{file}:{found[1]}" if found else file
        raise LaminarError("L013", f"{where}: not valid TOML: {error}", hint="mend that line; https://toml.io shows the syntax") from None
    reader = _Reader(text, file, raw)
    try:
        table = msgspec.convert(raw, MachineTable)
    except msgspec.ValidationError as error:
        reader.explain(error)
    return reader.machine(table)


@final
class _Reader:
    def __init__(self, text: str, file: str, raw: dict[str, Any]) -> None:
        self.text, self.file, self.raw = text, file, raw

    def where(self, steps: Steps) -> str:
        return f"{self.file}:{line_of(self.text, steps) or line_of(self.text, (*steps, 0)) or 1}"

    def refuse(self, steps: Steps, said: str, hint: str) -> NoReturn:
        raise LaminarError("L013", f"{self.where(steps)}: {said}", hint=hint)

    # What types can say

    def explain(self, error: msgspec.ValidationError) -> NoReturn:
        message = str(error)
        at = _AT.search(message)
        said = message[: at.start()] if at else message
        steps: Steps = tuple(int(index) if index else name for name, index in _STEP.findall(at[1] if at else ""))
        title = _title(steps)
        if unknown := re.search(r"unknown field `([^`]+)`", said):
            word = unknown[1]
            valid = [field.encode_name for field in msgspec.structs.fields(_TABLES[_shape(steps)])]
            best = nearest(word, valid)
            self.refuse(
                (*steps, word),
                f"unknown key '{word}' in {title}; {did_you_mean(word, valid)}",
                f"write '{best}' instead" if best else f"remove it; {PAGE} lists every key",
            )
        if missing := re.search(r"missing required field `([^`]+)`", said):
            name = missing[1]
            self.refuse(steps, f"{title} has no '{name}', which it needs", f"add {_FORM.get(name, name + ' = …')}; {PAGE} lists every key")
        value = self._value(steps)
        if steps == ("node",) and isinstance(value, dict):
            self.refuse(steps, "[node] is one table, but there may be several nodes", "write [[node]], with two brackets")
        if steps in _TABLES and isinstance(value, list):
            self.refuse(steps, f"{title} is a list, but there can be only one", f"write {title}, with one bracket")
        written = f" (found {_toml(value)})" if not isinstance(value, dict | list) else ""
        self.refuse(steps, f"{_dotted(steps)}: {in_toml_words(said)}{written}", f"{PAGE} shows every key with its type")

    def _value(self, steps: Steps) -> Any:
        found: Any = self.raw
        for step in steps:
            found = found[step]
        return found

    # What only values can say

    def machine(self, table: MachineTable) -> Machine:
        nodes = list(self._nodes(table.node))
        if (len(nodes) > 1 or table.grid is not None) and table.link is None:
            them = "them" if table.grid is None else "them and the grid's server"
            self.refuse(
                ("node", 0),
                f"{many(len(nodes), 'node')} and no [link] between {them}",
                f"add [link] with {_FORM['bandwidth']} and {_FORM['latency']}",
            )
        name, link, stragglers = table.name or Path(self.file).stem, self._link(table.link), self._stragglers(table.stragglers)
        if table.grid is None:
            return Machine(tuple(nodes), link, stragglers, name)
        # desktops reach their server and nobody else: what is not the grid runs on the first one alone
        return Machine(tuple(nodes[:1]), NOWHERE, stragglers, name, self._grid(table.grid, tuple(nodes), link))

    def _grid(self, table: GridTable, nodes: tuple[Node, ...], link: Link) -> Desktops:
        if table.churn not in KINDS:
            self.refuse(
                ("grid", "churn"),
                f"churn is {_toml(table.churn)}; {did_you_mean(table.churn, KINDS)}",
                f"write one of {', '.join(KINDS)}, and other figures beside it",
            )
        usual = KINDS[table.churn]
        for name, least, most in (("on", 0.01, 10_000), ("off", 0, 10_000), ("spread", 0, 3), ("loses", 0, 0.9)):
            if (value := getattr(table, name)) is not None:
                self._within(("grid", name), value, least, most)
        chosen = {name: getattr(usual if getattr(table, name) is None else table, name) for name in ("on", "off", "spread", "loses")}
        server = self._measure("server", table.server, bytes_a_second, "grid")
        if not server:
            self.refuse(("grid", "server"), f"server is {_toml(table.server)}: nothing would ever arrive", f"write {_FORM['server']}")
        return Desktops(nodes, link, server, Churn(**chosen, day=usual.day))

    def _nodes(self, tables: list[NodeTable]) -> Iterator[Node]:
        if not tables:
            self.refuse((), "there is no [[node]]", f"add {_FORM['node']}")
        names: set[str] = set()
        total = 0
        for place, table in enumerate(tables):
            at: Steps = ("node", place)
            self._within((*at, "count"), table.count, 1, MOST)
            self._within((*at, "cores"), table.cores, 1, MOST)
            self._within((*at, "speed"), table.speed, 0.001, 1000)
            total += table.count
            if total > MOST:
                self.refuse((*at, "count"), f"count makes {total} nodes in all, but at most {MOST} can be planned for", "write fewer")
            if table.name in names:
                self.refuse(
                    (*at, "name"), f"a second node is called '{table.name}'", "give each [[node]] a name of its own, and equal ones a count"
                )
            names.add(table.name)
            memory = self._memory((*at, "memory"), table.memory)
            for number in range(1, table.count + 1):
                yield Node(f"{table.name}-{number}" if table.count > 1 else table.name, table.cores, memory, table.speed)

    def _memory(self, at: Steps, written: str | int) -> int:
        found = written if isinstance(written, int) else parse_bytes(written)
        if found is None:
            self.refuse(at, f"memory is {_toml(written)}, which is no size", f'write {_FORM["memory"]}, or "512MiB"')
        if found < LEAST_MEMORY:
            self.refuse(at, f"memory is {_toml(written)}: {found} bytes hold no model", f"write a unit: {_FORM['memory']}")
        return found

    def _link(self, table: LinkTable | None) -> Link:
        if table is None:
            return NOWHERE
        bandwidth = self._measure("bandwidth", table.bandwidth, bytes_a_second)
        if not bandwidth:
            self.refuse(
                ("link", "bandwidth"), f"bandwidth is {_toml(table.bandwidth)}: nothing would ever arrive", f"write {_FORM['bandwidth']}"
            )
        return Link(bandwidth, self._measure("latency", table.latency, seconds))

    def _measure(self, name: str, written: str, read: Callable[[str], float | str], table: str = "link") -> float:
        found = read(written)
        if isinstance(found, str):
            self.refuse((table, name), f"{name} is {_toml(written)}, {found}", f"write {_FORM[name]}")
        return found

    def _stragglers(self, table: StragglersTable) -> Stragglers:
        self._within(("stragglers", "spread"), table.spread, 0, 3)
        if table.slow is None:
            return Stragglers(table.spread)
        self._within(("stragglers", "slow", "share"), table.slow.share, 0, 1)
        self._within(("stragglers", "slow", "factor"), table.slow.factor, 1, 1000)
        return Stragglers(table.spread, table.slow.share, table.slow.factor)

    def _within(self, at: Steps, value: float, least: float, most: float) -> None:
        if not (math.isfinite(value) and least <= value <= most):
            self.refuse(
                at,
                f"{at[-1]} is {value:g}, but must be from {least:g} to {most:g}",
                f"write {at[-1]} = a number from {least:g} to {most:g}",
            )


def _shape(steps: Steps) -> Steps:
    """Without places in lists."""
    return tuple(step for step in steps if isinstance(step, str))


def _title(steps: Steps) -> str:
    shape = _shape(steps)
    if not shape:
        return "the file"
    return "[[node]]" if shape == ("node",) else "[" + ".".join(map(str, shape)) + "]"


def _dotted(steps: Steps) -> str:
    return ".".join(map(str, _shape(steps))) or "the file"


def _toml(value: Any) -> str:
    """As it is written."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
