"""Those there: the nodes of a grid that is served, as a machine to plan for. What its server does not know is assumed, and said."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.plan.desktops import Desktops
from laminar.plan.machine import Link, Node

ASSUMED: Final = 12.5e6  # bytes a second of a node's line: 100 Mbit/s
SERVER: Final = 125e6  # and of the server's
NEAR: Final = 1e9  # of this machine to itself
LOOKS: Final = 3
TRUSTED: Final = 1 << 20  # answers in a row: whoever is trusted is hardly ever checked


def those_there(url: str, ask: Callable[[], Sequence[dict[str, Any]]]) -> Desktops:
    """`ask`: the server's list of nodes. L501 where nobody is active."""
    waits = []
    for _ in range(LOOKS):
        began = time.monotonic()
        told = ask()
        waits.append(time.monotonic() - began)
    active = [one for one in told if one["active"]]
    if not active:
        raise LaminarError(
            "L501", f"none of the {many(len(told), 'node')} of the grid at {url} is active", hint="laminar grid nodes lists them"
        )
    usual = [one["speed"] / one["facts"]["cores"] for one in active if one["speed"] > 0]
    middle = statistics.median(usual) if usual else 0.0
    nodes = tuple(_node(one, middle) for one in active)
    here = urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    said = f"{many(len(nodes), 'active node')} of the grid at {url}; the middle one's cores are taken to be as fast as those here"
    line = ", and all to be this machine's, which they share" if here else ", and lines to be of 100 Mbit/s"
    return Desktops(
        nodes=nodes,
        link=Link(NEAR if here else ASSUMED, min(waits) / 2),
        server=NEAR if here else SERVER,
        streaks={node.name: TRUSTED if one["trusted"] else one["streak"] for node, one in zip(nodes, active, strict=True)},
        source=said + line,
        cores=(os.cpu_count() or 1) if here else None,
    )


def _node(one: dict[str, Any], middle: float) -> Node:
    facts = one["facts"]
    speed = one["speed"] / facts["cores"] / middle if one["speed"] > 0 and middle > 0 else 1.0
    return Node(f"{one['number']} {one['name']}", facts["cores"], facts["memory"], max(0.001, speed * (one["available"] or 1.0)))
