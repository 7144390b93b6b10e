"""The command line: one file per verb, which reads arguments, calls one function of the packages below, and prints.

Read in this order: help.py (the verbs, and the page about them), verbs.py (how a verb is loaded only when it is called), plain.py
(how it reads its words), output.py (tables, JSON, errors), progress.py (bars of a build), then any verb.
Not here: anything that decides.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """`laminar`, the command."""
    # Python gives Ctrl-C back to the system before it has ended: it would look as if the work had failed that is done. Registered
    # first, so run last, when no thread is waited for any more.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        _main()
    except KeyboardInterrupt:  # while verbs.py was loaded, which hears of it from then on
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def _main() -> None:
    if sys.argv[1:] in (["--help"], ["-h"]):
        from laminar.cli.help import page, terminal_width

        try:
            print(page(terminal_width()), flush=True)
        except BrokenPipeError:  # as verbs.py has it, which takes longer to load than the page to print
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(141)
        return
    from laminar.cli import verbs

    verbs.main()
