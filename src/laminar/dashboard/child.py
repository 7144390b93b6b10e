"""Children: processes that work for a page, with a deadline. They die with the dashboard."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

import msgspec

from laminar.core.errors import LaminarError

LAST: Final = 2000  # characters of what a child that failed has said


def ask(module: str, request: Any, *, seconds: float, heard: Callable[[dict[str, Any]], None] = lambda _: None) -> dict[str, Any]:
    """The last line that `python -m module` writes, each a JSON object; `heard` is told of all others. It gets `request` as JSON.

    TimeoutError after so many seconds. L900 where it ends without an answer.
    """
    command = [sys.executable, "-m", module]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            child.kill()

        said: list[bytes] = []
        timer = threading.Timer(seconds, end)
        listener = threading.Thread(target=_listen, args=(child.stderr, said), daemon=True)
        timer.start()
        listener.start()
        last: dict[str, Any] | None = None
        try:
            try:
                child.stdin.write(msgspec.json.encode(request))
                child.stdin.close()
            except BrokenPipeError:
                pass  # it has failed already; what it said is told below
            for line in child.stdout:
                if last is not None:
                    heard(last)
                last = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            last = None
        finally:
            timer.cancel()
            if child.poll() is None:
                child.kill() if last is None else child.wait()
            listener.join()
    if late.is_set():
        raise TimeoutError(f"it took more than {seconds:g} s")
    if last is None:
        words = b"".join(said).decode(errors="replace").strip()[-LAST:]
        raise LaminarError("L900", f"{module} ended without an answer: {words or 'it said nothing'}", hint="laminar --debug ui")
    return last


def _listen(stream: Any, said: list[bytes]) -> None:
    for line in stream:
        said.append(line)
        del said[:-40]
