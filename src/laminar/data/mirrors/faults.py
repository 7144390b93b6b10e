"""Faults: the ways in which a mirror does not give what it was asked for."""

from __future__ import annotations

from enum import StrEnum
from typing import final


class Kind(StrEnum):
    UNREACHABLE = "unreachable"  # no connection: refused, no route, no such host
    LOGIN = "login"  # the user or the password is not accepted
    LIBRARY = "library"  # something that is needed to speak to it is not installed
    BUSY = "busy"  # it takes no more connections, or asks us to come later
    MISSING = "missing"  # it has no such file
    REFUSED = "refused"  # it does not show us this file
    ERROR = "error"  # it answers with an error of its own
    BROKE = "broke off"  # the connection ended in the middle
    SHORT = "truncated"  # its file is not as long as it should be
    STALLED = "stalled"  # no byte for too long
    LIED = "wrong data"  # the digest is another one
    WHOLE = "no ranges"  # it cannot begin in the middle of a file


@final
class Fault(Exception):
    """What a reader raises."""

    def __init__(self, kind: Kind, why: str) -> None:
        super().__init__(why)
        self.kind = kind
        self.why = why
