"""Teams in words: how fast several workers are, what they sent, how old their gradients were; and who started or joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from laminar.cli.output import number, size
from laminar.core.events import Event
from laminar.core.figures import many


def pace(team: Mapping[str, Any]) -> str:
    """Of the `team` of a step: how fast it is just now, and what it has sent so far."""
    rates = [(team.get(f"{what}_per_second"), f"{what}/s") for what in ("steps", "samples")]
    said = [f"{_rate(value)} {unit}" for value, unit in rates if value is not None]
    return ", ".join([_workers(team), *said, *_shares(team), *_traffic(team)])


def totals(team: Mapping[str, Any]) -> str:
    """Of the `team` of an epoch or of the end. What is not known, or did not happen, is left out."""
    said = [_workers(team), *_shares(team), *_traffic(team)]
    dropped = sum((team.get("dropped") or {}).values())
    if team.get("late"):
        said.append(f"{team['late']:,} late")
    if dropped:
        said.append(f"{dropped:,} dropped")
    return ", ".join(said)


def team_of(event: Event) -> dict[str, Any]:
    """What an epoch says of its team; empty where one process trains."""
    found: dict[str, Any] = event.get("team") or {
        name: event[name] for name in ("workers", "bytes", "dense_bytes", "shares", "resting") if name in event
    }
    return found


@final
class Arrivals:
    """Processes that take part in the training of a layer: said once when all are there, and again for each that comes later."""

    def __init__(self, workers: Mapping[str, int]) -> None:
        """`workers`: how many each layer is to have."""
        self._expected = workers
        self._here: dict[tuple[str, int], str] = {}  # host and process: role
        self._said = False

    def hear(self, event: Event) -> str | None:
        """What to say now that this has happened; None: nothing."""
        kind = event["event"]
        if kind in ("layer", "start", "resume"):
            self._here, self._said = {}, False
        elif kind == "worker":
            process = event["host"], event["pid"]
            known = process in self._here  # it says hello again to a server that was started again
            self._here[process] = event["role"]
            if not self._said and self._workers >= self._expected.get(event.get("layer", ""), 1):
                return self._started()
            if self._said and not known:
                return f"{event['role']} {event['rank']} joined (process {event['pid']} on {event['host']})"
        elif kind == "epoch" and self._here and not self._said:  # fewer than expected
            return self._started()
        return None

    @property
    def _workers(self) -> int:
        return list(self._here.values()).count("worker")

    def _started(self) -> str:
        self._said = True
        roles = list(self._here.values())
        return " and ".join(many(roles.count(role), role) for role in sorted(set(roles), reverse=True)) + " started"


def _workers(team: Mapping[str, Any]) -> str:
    there, wanted = team.get("workers") or 1, team.get("wanted") or 0
    said = f"{there} of {many(wanted, 'worker')}" if there < wanted else many(there, "worker")
    resting = team.get("resting") or 0  # now, or on average over an epoch
    return f"{said} ({resting:.2g} at rest)" if resting >= 0.005 else said


def _shares(team: Mapping[str, Any]) -> list[str]:
    """Where they are measured: by rank (sync) or by worker, of many the least and the most."""
    given = team.get("shares") or []
    shares = [round(100 * share) for share in (given.values() if isinstance(given, Mapping) else given)]
    if not shares:
        return []
    return [f"shares {'/'.join(map(str, shares)) if len(shares) <= 4 else f'{min(shares)} to {max(shares)}'} %"]


def _traffic(team: Mapping[str, Any]) -> list[str]:
    said = []
    if team.get("staleness") is not None:
        most = max(map(int, team.get("ages") or {}), default=0)
        said.append(f"staleness {team['staleness']:.2f}" + (f" (at most {most})" if most else ""))
    if team.get("bytes") is not None:
        dense = f" instead of {size(team['dense_bytes'])}" if team.get("dense_bytes") not in (None, team["bytes"]) else ""
        said.append(f"{size(team['bytes'])}{dense} sent")
    return said


def _rate(value: float) -> str:
    return number(value) if value >= 10 else f"{value:.2f}"
