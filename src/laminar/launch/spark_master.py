"""The master of a Spark cluster: where it is, and whether it answers."""

from __future__ import annotations

import re
import socket
from typing import Final

from laminar.core.errors import LaminarError

REACH: Final = 5.0  # seconds for a connection


def places(master: str) -> list[tuple[str, int]]:
    found = []
    for word in re.sub(r"^(spark|k8s)://(https?://)?", "", master).split(",") if "://" in master else []:
        host, _, port = word.rpartition(":")
        if not host or not port.isdigit():
            raise LaminarError("L407", f"{master} is no address of a Spark master", hint="--on spark://host:7077")
        found.append((host.strip("[]"), int(port)))
    return found


def reach(master: str) -> None:
    """Spark itself would try for a minute before it says anything."""
    why = ""
    for place in (all_of_them := places(master)):
        try:
            socket.create_connection(place, timeout=REACH).close()
            return
        except OSError as error:
            why = f"{place[0]}:{place[1]}: {error.strerror or error}"
    if all_of_them:
        raise unreachable(master, why)


def unreachable(master: str, why: str) -> LaminarError:
    return LaminarError("L407", f"Spark at {master} cannot be reached: {why}", hint="start its master, or give another address with --on")
