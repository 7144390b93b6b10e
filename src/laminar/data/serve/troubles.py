"""What the libraries that serve have to say: a line, and only where something is broken. Who asks for what is nobody's business."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import final

LIBRARIES = ("pyftpdlib", "uvicorn", "asyncio")


@contextlib.contextmanager
def told(tell: Callable[[str], None]) -> Iterator[None]:
    """While this lasts, `tell` gets their errors, and nothing of theirs is printed: not what strangers send that is no request."""
    loggers = [logging.getLogger(name) for name in LIBRARIES]
    before = [(logger.level, logger.propagate) for logger in loggers]
    handler = _Told(tell)
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.ERROR)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


@final
class _Told(logging.Handler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        said = record.getMessage().strip().splitlines()  # pyftpdlib says a whole traceback: what happened is its last line
        self._tell(
            f"{record.name.partition('.')[0]}: " + (f"{type(error).__name__}: {error}" if error is not None else said[-1] if said else "?")
        )
