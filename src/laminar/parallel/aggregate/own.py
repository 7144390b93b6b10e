"""Own: which versions a worker has made by itself, since those that it computes on. It went on from what it has sent, so they are no news
to it, and do not make its gradients old.

    known   all of them: parameters that come do not undo what it has sent
    ahead   those it has sent since the last parameters came: these took the place of its own, and what it had sent while they were under
            way is not in them
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal

import msgspec


class Own(msgspec.Struct):
    versions: list[int] = []  # rising
    base: int = 0  # that it computed on last

    def made(self, version: int) -> None:
        self.versions.append(version)

    def since(self, base: int, own: Literal["ahead", "known"]) -> int:
        """How many after this one. Others are forgotten: a worker does not go back to older parameters."""
        if base != self.base:
            self.base = base
            del self.versions[: bisect_right(self.versions, base) if own == "known" else None]
        return len(self.versions)
