"""Statements about choices, by their labels; form.py puts settings in their place, and statements.py judges them."""

from __future__ import annotations

from laminar.experiments.record import Statement


def above(text: str, measure: str, one: str, than: str, percent: float = 100.0) -> Statement:
    """`one` has more of it than `than`, or more than so many per cent of it."""
    if percent == 100.0:
        return Statement(text=text, rule="more_than", arguments={"measure": measure, "variant": one, "than": than})
    return Statement(text=text, rule="within", arguments={"measure": measure, "variant": one, "than": than, "low": percent})


def below(text: str, measure: str, one: str, than: str, percent: float = 100.0) -> Statement:
    if percent == 100.0:
        return Statement(text=text, rule="less_than", arguments={"measure": measure, "variant": one, "than": than})
    return Statement(text=text, rule="within", arguments={"measure": measure, "variant": one, "than": than, "high": percent})


def rising(text: str, measure: str, axis: str, where: dict[str, object]) -> Statement:
    """It rises along the axis, from each value to the next, among the choices with these settings."""
    return Statement(text=text, rule="monotone", arguments={"measure": measure, "axis": axis, "where": where, "direction": "rising"})


def at_least(text: str, measure: str, one: str, value: float) -> Statement:
    return Statement(text=text, rule="at_least", arguments={"measure": measure, "variant": one, "value": value})


def at_most(text: str, measure: str, one: str, value: float) -> Statement:
    return Statement(text=text, rule="at_most", arguments={"measure": measure, "variant": one, "value": value})
