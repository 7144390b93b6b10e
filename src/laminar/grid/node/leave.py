"""Leave: what a node owes when it goes. Answers that are ready are brought and other tasks go back; what compression has kept back is
handed in for somebody else.
"""

from __future__ import annotations

from laminar.core.errors import LaminarError
from laminar.grid.node.client import Client, Refusal, Unreachable
from laminar.grid.node.home import Home
from laminar.grid.node.tidy import owed
from laminar.grid.wire.messages import Ask


def leave(home: Home) -> dict[str, int]:
    """How many answers were brought, tasks given back, and residuals handed in. L503 where the node belongs to nobody."""
    server = home.server()
    if server is None:
        raise LaminarError("L503", f"{home.root} has joined no grid", hint="there is nothing to leave")
    authority = home.root / "ca.pem"
    client = Client(server.url, home.key, pinned=server.key, ca=str(authority) if authority.exists() else None)
    unfinished = home.tasks()
    brought = handed_in = refused = 0
    try:
        for task in [one for one in unfinished if home.whole(one)]:  # first: without what they took out, no residual is as the account says
            try:
                client.answer(task.result, home.answer_path(task.result).read_bytes())
            except Refusal:
                continue
            unfinished.remove(task)
            brought += 1
        for path in sorted((home.root / "residuals").iterdir()):
            name = home.run_of(path)
            if name is None:
                continue
            try:
                client.custody(name, owed(path))
                handed_in += 1
            except Refusal:
                refused += 1
        if unfinished:
            client.work(Ask(want=0, cannot=[(task.result, "its node has left") for task in unfinished][:64]))
    except Unreachable as error:
        raise LaminarError("L501", f"the grid cannot be reached: {error}", hint="try again, or delete the folder of the node") from error
    except Refusal as error:
        raise LaminarError("L503", f"the grid refuses: {error}", hint="delete the folder of the node") from error
    finally:
        client.close()
    home.clear()
    for name in ("server.json", "too_large.json", "habits.json", "limits.json"):
        (home.root / name).unlink(missing_ok=True)
    return {"brought": brought, "given_back": len(unfinished), "handed_in": handed_in, "refused": refused}
