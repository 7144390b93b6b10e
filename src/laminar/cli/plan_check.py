"""The ledger of plans: what was predicted, what was measured then, and whether the order was right."""

from __future__ import annotations

from contextlib import closing

from laminar.cli.output import Json, print_json, remark, say


def run(json: Json = False) -> None:
    from laminar.plan.ledger import Ledger

    with closing(Ledger.open()) as ledger:
        found = ledger.check()
        notes = list(ledger.notes)  # else an emptied ledger would look like one in which nothing was ever written
    if json:
        print_json(found.to_json() | {"notes": notes})
        return
    say(found.text)
    for note in notes:
        remark(note)
