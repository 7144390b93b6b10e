"""Reputation: whose answers are compared with another's, and how often (BOINC's adaptive replication).

A node is trusted with a task of its own only after TRUSTED answers in a row were compared and found good, and then with the probability
1 - 1/n after n of them: the check becomes rarer and never stops. One bad answer, or one that never came, and it begins anew.
"""

from __future__ import annotations

from typing import Final, Literal

TRUSTED: Final = 10
Policy = Literal["adaptive", "always", "never"]


def must_check(streak: int, draw: float, policy: Policy, *, trusted: bool = False) -> bool:
    """`draw`: a number in [0, 1) that the node cannot know."""
    if trusted or policy == "never":
        return False
    if policy == "always" or streak < TRUSTED:
        return True
    return draw < 1 / streak
