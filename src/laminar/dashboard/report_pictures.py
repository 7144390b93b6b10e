"""The pictures of an experiment's report: which there are is known at once; they are drawn by a process (picture_process.py), one
experiment at a time, and remembered until a trial has come."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final, final

import msgspec

from laminar.core.errors import LaminarError
from laminar.dashboard.child import ask
from laminar.experiments.lineage import lineage
from laminar.experiments.pictures.choose import pictures
from laminar.experiments.pictures.sheet import NARROW, WIDE
from laminar.experiments.view import View
from laminar.store.store import Store

MODULE: Final = "laminar.dashboard.picture_process"
SECONDS: Final = 120.0
KEPT: Final = 16  # experiments, with all their pictures
Key = tuple[Any, ...]


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """A picture that can be drawn, and the room that it takes: inches across and high, on a page and on a phone."""

    name: str
    title: str
    caption: str
    wide: tuple[float, float]
    narrow: tuple[float, float]


def announced(view: View, store: Store) -> list[Announced]:
    found = pictures(view, lineage(store, list(view.done)))
    return [
        Announced(name=one.name, title=one.title, caption=one.caption, wide=(WIDE, one.size.wide), narrow=(NARROW, one.size.narrow))
        for one in found
    ]


def missing() -> dict[str, str] | None:
    """Why nothing can be drawn."""
    if find_spec("matplotlib") is not None:
        return None
    return {
        "code": "L011",
        "message": "pictures are drawn with matplotlib, which is not installed",
        "hint": "pip install 'laminar-train[experiments]'",
    }


@final
class Drawing:
    def __init__(self, run: Callable[..., dict[str, Any]] = ask) -> None:
        self._run = run
        self._turn = threading.Lock()
        self._known: OrderedDict[Key, list[dict[str, Any]]] = OrderedDict()

    def pictures(self, start: str, name: str, seen: object, *, narrow: bool) -> list[dict[str, Any]]:
        """`seen`: changes when the experiment does. L609 where it takes too long; what the process says is wrong, else."""
        key = (start, name, narrow)
        with self._turn:  # who asks for what another is having drawn gets that
            known = self._known.pop((*key, seen), None)
            if known is None:
                for old in [one for one in self._known if one[:3] == key]:
                    del self._known[old]
                known = self._drawn(start, name, narrow)
            self._known[*key, seen] = known
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            return known

    def _drawn(self, start: str, name: str, narrow: bool) -> list[dict[str, Any]]:
        try:
            told = self._run(MODULE, {"start": start, "name": name, "narrow": narrow}, seconds=SECONDS)
        except TimeoutError as error:
            raise LaminarError(
                "L609",
                f"the pictures of {name} are not drawn: {error}",
                hint=f"laminar experiment report {name}, when the machine is quiet",
            ) from None
        if "error" in told:
            raise LaminarError(told["error"]["code"], told["error"]["message"], hint=told["error"]["hint"])
        found: list[dict[str, Any]] = told["pictures"]
        return found
