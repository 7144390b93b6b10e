"""The ledger of plans: what was predicted, what was measured then, and whether the order was right."""

from __future__ import annotations

from contextlib import closing

from laminar.cli.output import Json, print_json, say


def run(json: Json = False) -> None:
    from laminar.plan.ledger import Ledger

    with closing(Ledger.open()) as ledger:
        found = ledger.check()
    if json:
        print_json(found.to_json())
        return
    say(found.text)
