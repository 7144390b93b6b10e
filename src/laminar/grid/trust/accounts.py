"""Accounts: is a sparse answer a part of the work that was done?

A node that sends the largest values keeps back the others, and adds them to later answers. So two honest packets for one task differ, and
only the work can be compared (agreement.py). What was sent is held against the work by sketches, which are linear:

    kept back, before sending     r = account + work
    an honest packet p            the largest values of r
    afterwards                    account = r - p, in which nothing of p is left: <account, p> = 0

Inner products of sketches are exact but for noise of |account||p|/sqrt(sums), and every lie is on one side of it: of a packet that is
turned round -2|p|^2 is found, of a random one -|p|^2, of one that is five times too large -20|p|^2. A packet that is below the noise is not
seen at once. So what is below it is added up, less what chance allows for, and nobody lies long (a CUSUM: Page, Biometrika 1954).

Packets with momentum inside (dgc.py) are a part of r = r + u, where u = momentum * u + work. That a node forgets the momentum of what it
has sent is not known here in sums, and leaves too much on the account, on the other side of zero from all lies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from laminar.grid.wire.sketch import Sketch

DEVIATIONS: Final = 5.0  # of the noise, for one packet: an honest node is wronged once in three million answers
ALLOWED: Final = 1.0  # deviations a packet that are put down to chance when they are added up
TOGETHER: Final = 12.0  # deviations that are too many, above these
LEAST: Final = 0.05  # of |p|: less on an account is rounding
LARGEST: Final = 1e18


@dataclass(frozen=True)
class Account:
    """Of a node in a run."""

    kept: Sketch  # what it keeps back
    moving: Sketch | None = None  # its momentum, where packets have that inside
    returned: Sketch | None = None  # packets that were not used, of which it has not been told yet
    doubt: float = 0.0

    @classmethod
    def empty(cls, sums: int) -> Account:
        return cls(np.zeros(sums, np.float32))

    def to_bytes(self) -> bytes:
        rows = [row for row in (self.kept, self.moving, self.returned) if row is not None]
        head = np.array([self.doubt, self.moving is not None, self.returned is not None], "<f4")
        return np.concatenate([head, *rows]).astype("<f4").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes | None, sums: int) -> Account:
        """Nothing, or what is of another size, is an empty one."""
        numbers = np.frombuffer(data or b"", "<f4")
        if numbers.size < 3 or numbers.size != 3 + sums * (1 + int(numbers[1]) + int(numbers[2])):
            return cls.empty(sums)
        rows = list(numbers[3:].reshape(-1, sums))
        kept = rows.pop(0)
        moving = rows.pop(0) if numbers[1] else None
        return cls(kept, moving, rows.pop(0) if numbers[2] else None, float(numbers[0]))

    def with_back(self, packet: Sketch, *, told: bool) -> Account:
        """A packet was not used, and goes back into what the node keeps: as soon as it has been told."""
        if told:
            return replace(self, kept=(self.kept + packet).astype(np.float32))
        return replace(self, returned=(packet if self.returned is None else self.returned + packet).astype(np.float32))

    def told(self) -> Account:
        return self if self.returned is None else replace(self, kept=self.kept + self.returned, returned=None)

    def worked(self, work: Sketch, momentum: float = 0.0, *, nesterov: bool = False) -> Account:
        """Work was added to what the node keeps back, as dgc.py has it."""
        if not momentum:
            return replace(self, kept=(self.kept + work).astype(np.float32))
        before = 0 if self.moving is None else self.moving
        moving = momentum * (before + work) if nesterov else momentum * before + work
        kept = self.kept + moving + (work if nesterov else 0)
        return replace(self, kept=kept.astype(np.float32), moving=moving.astype(np.float32))


@dataclass(frozen=True)
class Checked:
    account: Account  # afterwards
    wrong: str  # empty: it may be honest
    deviations: float = 0.0  # below zero: less of the packet was there than was sent


def check(account: Account, packet: Sketch, packet_norm: float) -> Checked:
    """`account` has the work on it. `packet_norm`: of the values themselves, which are all here."""
    has = _norm(account.kept)
    after = account.kept.astype(np.float64) - packet
    left = _norm(after)
    sent = replace(account, kept=after.astype(np.float32))
    if not (math.isfinite(has) and max(has, left) < LARGEST):
        return Checked(sent, "what the node would have to have kept back is not finite")
    if packet_norm == 0:
        return Checked(sent, "" if has == 0 else "nothing was sent, though there is something to send")
    found = float(np.dot(after, packet)) / (max(left, LEAST * packet_norm) * packet_norm) * math.sqrt(len(packet))
    doubt = max(0.0, account.doubt - found - ALLOWED)
    wrong = ""
    if found < -DEVIATIONS:
        wrong = f"the packet is no part of the work: {-found:.1f} deviations, at most {DEVIATIONS:g} are chance"
    elif doubt > TOGETHER:
        wrong = f"its packets together are no part of its work: {doubt:.1f} deviations too many, at most {TOGETHER:g} are chance"
    return Checked(replace(sent, doubt=doubt), wrong, found)


def _norm(sketch: np.ndarray[tuple[int, ...], np.dtype[np.floating]]) -> float:
    return float(np.linalg.norm(sketch.astype(np.float64)))
