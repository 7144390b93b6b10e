"""Accounts: is a compressed answer a part of the work that was done?

A node that compresses keeps back what it does not send, and adds it to later answers. So two honest packets for one task differ, and only
the work can be compared (agreement.py). What was sent is then held against the work by sketches, which are linear:

    kept back, before sending     r = account + work
    an honest packet p            the largest values of r, so <r, p> = |p|^2, and |p| <= |r|
    afterwards                    account = r - p

Inner products of sketches are exact but for noise of |r||p|/sqrt(SIZE). A packet that is turned round (-p), random, or scaled, is off by
many times that. One that is bent by less does less harm than an honest one does good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from laminar.grid.wire.sketch import SIZE, Sketch

DEVIATIONS: Final = 6.0  # of the noise
LARGEST: Final = 1e18
SLACK: Final = 0.25  # of |p|^2: what rounding to 16 or 8 bits may do


@dataclass(frozen=True)
class Checked:
    account: Sketch  # afterwards
    wrong: str  # empty: it may be honest


def check(account: Sketch, work: Sketch, packet: Sketch, packet_norm: float, *, exact: bool = True) -> Checked:
    """`packet_norm`: of the values themselves, which are all here. Not `exact`: there is momentum in packets, so only directions count."""
    before = account.astype(np.float64) + work
    size = math.sqrt(float(np.dot(before, before)))
    after = (before - packet).astype(np.float32)
    if not (math.isfinite(size) and size < LARGEST and np.isfinite(after).all()):
        return Checked(after, "what the node would have to have kept back is not finite")
    if packet_norm == 0:
        return Checked(after, "")
    found, wanted = float(np.dot(before, packet)), packet_norm**2
    noise = DEVIATIONS * size * packet_norm / math.sqrt(SIZE)
    if not exact:
        return Checked(after, "the packet points away from the work" if found < -noise else "")
    if packet_norm > 2 * size + 1e-12:
        return Checked(after, f"the packet is {packet_norm / max(size, 1e-12):.1f} times as large as all that the node can have")
    if abs(found - wanted) > noise + SLACK * wanted:
        return Checked(after, f"the packet is no part of the work: {found / wanted:.2f} of it, 1 was expected")
    return Checked(after, "")
