"""Trouble: what passes by itself, a database that is away, locked or full, is told in a line, and once.

A disk may be full for hours, thousands of nodes ask again and again, and the log may be on that disk.
"""

from __future__ import annotations

import logging
import sqlite3
from typing import Final, final

from sqlalchemy.exc import SQLAlchemyError

log: Final = logging.getLogger("laminar.grid")


def passes(error: BaseException) -> bool:
    """It is nobody's fault here."""
    return isinstance(error, SQLAlchemyError | OSError | sqlite3.Error) or type(error).__module__.startswith("psycopg")


def is_full(error: BaseException) -> bool:
    """A disk is: so say SQLite ("database or disk is full"), PostgreSQL ("No space left on device") and the system."""
    said = str(error).lower()
    return ("disk" in said and "full" in said) or "no space left" in said


@final
class Trouble:
    """Of one who goes on when it is over."""

    def __init__(self, who: str) -> None:
        self._who, self._told = who, ""

    def tell(self, error: BaseException) -> None:
        said = f"{type(error).__name__}: {getattr(error, 'orig', None) or error}".strip().splitlines()[0]
        if said != self._told:
            log.error("%s: %s", self._who, said)
            self._told = said

    def over(self) -> None:
        if self._told:
            log.warning("%s no more", self._who)
            self._told = ""
