"""Own daemons: a validator or an assimilator of another package, that a grid strategy names. Which package has it, and in which version.

    strategy = { kind = "grid", validator = { name = "close", within = 0.2 } }

Packages announce them as entry points, in the groups GROUPS. Name, package, version and settings are in the layer's key: another rule makes
another layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean

if TYPE_CHECKING:
    from importlib import metadata

Kind = Literal["validator", "assimilator"]
GROUPS: Final[dict[Kind, str]] = {"validator": "laminar.grid.validators", "assimilator": "laminar.grid.assimilators"}
Written = str | dict[str, Any]


class OwnDaemon(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Kind
    name: str
    settings: dict[str, Any] = {}
    package: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"the {self.kind} '{self.name}' of {self.package} {self.version}"


def check_written(kind: Kind, written: Written) -> None:
    """ValueError unless it is a name, or a table with one."""
    name = written if isinstance(written, str) else written.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError(f'strategy.{kind} is {written!r}, but must be a name, or {{ name = "…" }} with settings beside it')


def installed(kind: Kind, written: Written) -> OwnDaemon:
    """With its package. L507 where no package that is installed here has it."""
    given: Mapping[str, Any] = {"name": written} if isinstance(written, str) else written
    name, settings = given["name"], {key: value for key, value in given.items() if key != "name"}
    found = entry_point(kind, name)
    assert found.dist is not None
    return OwnDaemon(kind=kind, name=name, settings=settings, package=found.dist.name, version=found.dist.version)


def entry_point(kind: Kind, name: str) -> metadata.EntryPoint:
    from importlib import metadata  # most verbs do not need it, and loading it takes longer than they do

    known = {one.name: one for one in metadata.entry_points(group=GROUPS[kind])}
    if name not in known:
        others = f"; {did_you_mean(name, known)}" if known else ""
        raise LaminarError(
            "L507",
            f"no package that is installed here has a {kind} '{name}'{others}",
            hint=f"pip install the package that has it (entry point in the group {GROUPS[kind]}), here and where the grid is served",
        )
    return known[name]
