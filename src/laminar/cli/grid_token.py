"""Make a token with which nodes may join; without options, list the tokens. --revoke bans all nodes that joined with a token.

A token admits --uses nodes, 50 by default; --id ID --uses N admits N more with an existing token. Nodes that joined with a personal token
(--for) have one owner, and never check each other's work.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from laminar.cli.grid_look import On, ago, ask, tell
from laminar.cli.output import Json, print_json, remark, say, table
from laminar.core.errors import LaminarError
from laminar.core.figures import many


def run(
    owner: Annotated[str | None, typer.Option("--for", metavar="NAME", help="Make one for somebody.")] = None,
    uses: Annotated[int | None, typer.Option("--uses", min=1, max=1_000_000, help="Nodes that may join with it; default: 50.")] = None,
    id: Annotated[int | None, typer.Option("--id", metavar="ID", min=1, help="A token that --uses more nodes may join with.")] = None,
    days: Annotated[float | None, typer.Option("--days", min=0.001, help="After which it lets nobody in.")] = None,
    revoke: Annotated[
        int | None, typer.Option("--revoke", metavar="ID", min=1, help="Nobody can join with it any more, and nodes that did are banned.")
    ] = None,
    on: On = None,
    json: Json = False,
) -> None:
    if revoke is not None:
        told = tell(on, f"/v1/admin/tokens/{revoke}/revoke")
        print_json(told) if json else say(f"revoked; {told['banned']} nodes are banned")
        return
    if id is not None:
        if uses is None or owner is not None or days is not None:
            raise LaminarError("L008", f"--id {id} goes with --uses alone", hint=f"laminar grid token --id {id} --uses 50")
        told = tell(on, f"/v1/admin/tokens/{id}/uses", {"uses": uses})
        print_json(told) if json else say(f"token {id} admits {many(uses, 'more node')}")
        return
    if owner is not None or uses is not None or days is not None:
        asked = {"name": owner or "", "seconds": None if days is None else days * 86400, **({"uses": uses} if uses is not None else {})}
        told = tell(on, "/v1/admin/tokens", asked)
        if json:
            print_json(told)
            return
        say(told["token"])
        remark(f"it admits {many(told['uses'], 'node')}" + ("; --uses N sets another number" if uses is None else ""))
        return
    told = ask(on, "/v1/admin/tokens")
    if json:
        print_json(told)
        return
    table(
        "",
        ["id", "for", "made", "uses left", "nodes", "state"],
        [
            [
                str(t["id"]),
                t["name"] or "anyone",
                ago(t["made"]),
                "any" if t["uses"] is None else str(t["uses"]),
                str(t["nodes"]),
                _state(t),
            ]
            for t in told
        ],
        right=["id", "uses left", "nodes"],
    )


def _state(token: dict[str, Any]) -> str:
    """As the server sees it when a node shows the token."""
    if token["revoked"]:
        return "revoked"
    if token["expires"] is not None and time.time() > token["expires"]:
        return "expired"
    return "used up" if token["uses"] == 0 else "good"
