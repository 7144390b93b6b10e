"""Judging: layers asked about samples in a process beside the dashboard, one comparison at a time, remembered while the dashboard runs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from laminar.core.errors import LaminarError
from laminar.dashboard.child import ask

MODULE: Final = "laminar.dashboard.judge_process"
SECONDS: Final = 600.0
KEPT: Final = 12  # judgements, with their pictures
WAITING: Final = 4  # comparisons that are not done yet

State = dict[str, Any]
Key = tuple[Any, ...]


@final
class Judging:
    """`look` never waits: the page asks again until the state is `done` or `failed`."""

    def __init__(self, run: Callable[..., dict[str, Any]] = ask) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._states: OrderedDict[Key, State] = OrderedDict()

    def look(self, start: str, ids: Sequence[str], data: str, stack: str | None, *, again: bool = False) -> State:
        """`stack`: the text of the stack file, which says what the data is. `again`: forget what was found."""
        key = (start, tuple(ids), data, stack)
        with self._lock:
            state = self._states.get(key)
            over = state is not None and state["state"] in ("done", "failed")
            if state is not None and not (again and over):
                self._states.move_to_end(key)
                return state
            if sum(one["state"] == "running" for one in self._states.values()) >= WAITING:
                raise LaminarError("L008", f"{WAITING} comparisons are being computed", hint="wait for one of them")
            state = self._states[key] = {"state": "running", "progress": {"what": "waiting for its turn", "done": 0, "of": len(ids) + 1}}
            finished = [one for one, known in self._states.items() if known["state"] != "running"]
            for one in finished[: max(0, len(self._states) - KEPT)]:
                del self._states[one]
        request = {"start": start, "ids": list(ids), "data": data}
        threading.Thread(target=self._work, args=(key, request), name="laminar-judging", daemon=True).start()
        return state

    def _work(self, key: Key, request: dict[str, Any]) -> None:
        def heard(told: dict[str, Any]) -> None:
            if "progress" in told:
                self._set(key, {"state": "running", "progress": told["progress"]})

        with self._turn:
            try:
                told = self._run(MODULE, request, seconds=SECONDS, heard=heard)
            except TimeoutError as error:
                told = {"error": {"code": "L606", "message": f"the layers were asked, but {error}", "hint": "data with fewer test samples"}}
            except (LaminarError, OSError) as error:
                code, hint = (error.code, error.hint) if isinstance(error, LaminarError) else ("L900", "laminar doctor")
                told = {"error": {"code": code, "message": str(getattr(error, "message", error)), "hint": hint}}
        if "judgement" in told:
            self._set(key, {"state": "done", "judgement": told["judgement"]})
        else:
            self._set(key, {"state": "failed", "error": told.get("error") or {"code": "L900", "message": "no answer", "hint": ""}})

    def _set(self, key: Key, state: State) -> None:
        with self._lock:
            if key in self._states:
                self._states[key] = state
