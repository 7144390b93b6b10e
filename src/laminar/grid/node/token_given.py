"""Token given: a node reads its token from a file (`--token-file`; - is standard input), from the variable LAMINAR_JOIN_TOKEN, or from a
prompt at the terminal. It never takes one from the command line, which every user of the machine can read.
"""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import Final

from laminar.core.errors import LaminarError

VARIABLE: Final = "LAMINAR_JOIN_TOKEN"
LONGEST: Final = 200  # characters of a token, at most
WAYS: Final = f"laminar grid join URL --token-file FILE, or the token in the variable {VARIABLE}"


def token_given(file: Path | None) -> str | None:
    """The token from the file or the variable, or None. Raises L503 if it is invalid. Removes the variable, so that child processes do not
    inherit it."""
    named = os.environ.pop(VARIABLE, None)
    if file is not None:
        return _checked(_read(file), f"--token-file {file}")
    return _checked(named, f"the variable {VARIABLE}") if named else None


def token_asked(url: str) -> str | None:
    """The token that the user types; None without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    try:
        return _checked(getpass.getpass(f"token for {url}: ", stream=sys.stderr), "what was typed")
    except EOFError:
        return None


def _read(file: Path) -> str:
    try:
        if str(file) == "-":
            return sys.stdin.readline(4 * LONGEST)
        with file.open(encoding="utf-8") as opened:
            return opened.read(4 * LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise LaminarError("L503", f"--token-file {file} cannot be read: {why}", hint="a file with nothing but the token in it") from error


def _checked(text: str, where: str) -> str:
    token = text.strip()
    if not token or len(token) > LONGEST or not token.isprintable() or " " in token:
        raise LaminarError("L503", f"{where} has no token: expected one word of at most {LONGEST} characters", hint=WAYS)
    return token
