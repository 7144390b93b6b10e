"""Statements about choices, by their labels; form.py puts settings in their place, and statements.py judges them.

`claim` is the id of the sentence of a founding document that a statement tries; the page on these documents lists them. What no document
says is a question of ours.
"""

from __future__ import annotations

from typing import Final

from laminar.experiments.record import Statement

OURS: Final = "ours"


def above(text: str, measure: str, one: str, than: str, percent: float = 100.0, *, claim: str = OURS) -> Statement:
    """`one` has more of it than `than`, or more than so many per cent of it."""
    if percent == 100.0:
        return Statement(text=text, rule="more_than", arguments={"measure": measure, "variant": one, "than": than}, claim=claim)
    return Statement(text=text, rule="within", arguments={"measure": measure, "variant": one, "than": than, "low": percent}, claim=claim)


def below(text: str, measure: str, one: str, than: str, percent: float = 100.0, *, claim: str = OURS) -> Statement:
    if percent == 100.0:
        return Statement(text=text, rule="less_than", arguments={"measure": measure, "variant": one, "than": than}, claim=claim)
    return Statement(text=text, rule="within", arguments={"measure": measure, "variant": one, "than": than, "high": percent}, claim=claim)


def rising(text: str, measure: str, axis: str, where: dict[str, object], *, claim: str = OURS) -> Statement:
    """It rises along the axis, from each value to the next, among the choices with these settings."""
    arguments = {"measure": measure, "axis": axis, "where": where, "direction": "rising"}
    return Statement(text=text, rule="monotone", arguments=arguments, claim=claim)


def at_least(text: str, measure: str, one: str, value: float, *, claim: str = OURS) -> Statement:
    return Statement(text=text, rule="at_least", arguments={"measure": measure, "variant": one, "value": value}, claim=claim)


def at_most(text: str, measure: str, one: str, value: float, *, claim: str = OURS) -> Statement:
    return Statement(text=text, rule="at_most", arguments={"measure": measure, "variant": one, "value": value}, claim=claim)
