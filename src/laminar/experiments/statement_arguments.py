"""Arguments of statements: what each rule of statements.py needs and may have, and what is wrong with those given. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.experiments.measures import MEASURES
from laminar.experiments.record import Statement

_TABLE: Final = (Mapping, "a table of settings, such as { workers = 2 }")
_NUMBER: Final = ((int, float), "a number")
_TEXT: Final = (str, "text")
KINDS: Final[dict[str, tuple[Any, str]]] = {
    "variant": _TABLE,
    "than": _TABLE,
    "where": _TABLE,
    "measure": _TEXT,
    "axis": _TEXT,
    "direction": (str, '"rising" or "falling"'),
    "value": _NUMBER,
    "low": _NUMBER,
    "high": _NUMBER,
}
_TWO: Final = ("variant",), ("than", "measure")
_LIMIT: Final = ("measure", "value"), ("variant",)
ARGUMENTS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {  # that a rule needs, and may have
    "monotone": (("axis",), ("measure", "direction", "where")),
    "more_than": _TWO,
    "less_than": _TWO,
    "slower_than": _TWO,
    "faster_than": _TWO,
    "at_least": _LIMIT,
    "at_most": _LIMIT,
    "within": (("variant",), ("than", "measure", "low", "high")),
}


def check_rule(statement: Statement) -> None:
    """L016 for a rule, an argument or a measure that is none, before anything is run."""
    if said := wrong_with(statement):
        raise LaminarError("L016", f"statement: {said[0]}", hint=said[1])


def wrong_with(statement: Statement) -> tuple[str, str] | None:
    """What is wrong with it, and a hint."""
    rule, given = statement.rule, statement.arguments
    if rule not in ARGUMENTS:
        return f"there is no rule '{rule}'; {did_you_mean(rule, ARGUMENTS)}", "rules: " + ", ".join(ARGUMENTS)
    needed, may = ARGUMENTS[rule]
    known = (*needed, *may)
    listed = f"{rule} takes: " + ", ".join(known)
    for name, value in given.items():
        if name not in known:
            return f"the rule {rule} has no argument '{name}'; {did_you_mean(name, known)}", listed
        kind, words = KINDS[name]
        if not isinstance(value, kind) or isinstance(value, bool) or (name == "direction" and value not in ("rising", "falling")):
            return f"the argument {name} of the rule {rule} is {value!r}, but must be {words}", listed
    if missing := [name for name in needed if name not in given]:
        return f"the rule {rule} needs the argument '{missing[0]}'", listed
    measure = given.get("measure", "seconds")
    if measure not in MEASURES:
        return f"there is no measure '{measure}'; {did_you_mean(measure, MEASURES)}", "measures: " + ", ".join(MEASURES)
    return None
