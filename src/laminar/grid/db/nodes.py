"""Nodes and the tokens with which they come."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, func, insert, literal_column, select, update

from laminar.grid.db.prepared import Prepared
from laminar.grid.db.schema import IN_PROGRESS, nodes, results, tokens
from laminar.grid.db.tx import Tx
from laminar.grid.wire.messages import ADMITTED, Facts
from laminar.grid.wire.signing import node_id

FIRST_QUOTA: Final = 64
LARGEST_QUOTA: Final = 1 << 20
ACTIVE: Final = 600.0  # seconds since a node was heard of
DAY: Final = 86400


@dataclass(frozen=True)
class Node:
    """As far as decisions go by it."""

    id: str
    number: int
    name: str
    key: str
    token: int
    banned: str | None
    trusted: bool
    speed: float
    up: float
    down: float
    streak: int
    quota: int
    sent_today: int
    bytes_today: int
    facts: str

    @property
    def kernels(self) -> frozenset[str]:
        """That it has announced."""
        return _kernels(self.facts)


def get(tx: Tx, id: str, now: float) -> Node | None:
    row = tx.sheets.nodes.get(tx, id)
    return None if row is None else _node(row, now)


def _node(row: Any, now: float) -> Node:
    today = row.day == int(now // DAY)
    return Node(
        row.id,
        row.number,
        row.name,
        row.key,
        row.token,
        row.banned,
        row.trusted,
        row.speed,
        row.up,
        row.down,
        row.streak,
        row.quota,
        row.sent_today if today else 0,
        row.bytes_today if today else 0,
        row.facts,
    )


@lru_cache(maxsize=4096)
def _kernels(facts: str) -> frozenset[str]:
    return frozenset(msgspec.json.decode(facts).get("kernels", ()))


def trusted(tx: Tx, id: str) -> bool:
    row = tx.sheets.nodes.get(tx, id)
    return row is not None and bool(row.trusted)


def find(tx: Tx, word: str) -> list[str]:
    """The ids of the nodes that are called so: by number, name or the beginning of their id."""
    exact = nodes.c.number == int(word) if word.isascii() and word.isdigit() and len(word) < 10 else nodes.c.name == word
    for which in (exact, nodes.c.id.startswith(word, autoescape=True)):  # ids begin with digits, too
        if found := list(tx.execute(select(nodes.c.id).where(which)).scalars()):
            return found
    return []


def keys(tx: Tx) -> dict[str, str]:
    """Of all nodes that may come."""
    return {row.id: row.key for row in tx.execute(select(nodes.c.id, nodes.c.key).where(nodes.c.banned.is_(None)))}


def enrol(tx: Tx, key: str, token: int, facts: Facts, now: float, *, trusted: bool = False) -> str:
    """The node of this key; known ones keep what is known of them."""
    id = node_id(key)
    told, sheet = msgspec.json.encode(facts).decode(), tx.sheets.nodes
    known = sheet.get(tx, id)
    if known is not None:
        sheet.change(known, facts=told, name=facts.name, seen=now)
        return id
    number = int(tx.execute(select(func.coalesce(func.max(nodes.c.number), 0))).scalar_one()) + 1
    tx.execute(
        insert(nodes).values(
            id=id,
            number=number,
            name=facts.name,
            key=key,
            token=token,
            facts=told,
            enrolled=now,
            seen=now,
            trusted=trusted,
            quota=FIRST_QUOTA,
        )
    )
    return id


def seen(tx: Tx, id: str, now: float, *, speed: float, available: float, up: float = 0.0, down: float = 0.0, sent: int = 0) -> None:
    """It has asked, and was given so many tasks. 0: a rate that is not known is that from before."""
    sheet = tx.sheets.nodes
    row, day = sheet.get(tx, id), int(now // DAY)
    if row is None:
        return
    same = row.day == day
    sheet.change(
        row,
        seen=now,
        available=available,
        speed=float(speed) if speed > 0 else row.speed,
        up=float(up) if up > 0 else row.up,
        down=float(down) if down > 0 else row.down,
        sent_today=(row.sent_today if same else 0) + sent,
        bytes_today=row.bytes_today if same else 0,
        day=day,
    )


def lines_of(tx: Tx, run: int, most: int) -> list[tuple[float, float]]:
    """The upload and download rates of nodes that have tasks of a run."""
    query = select(nodes.c.up, nodes.c.down).join(results, results.c.node == nodes.c.id)
    at_work = query.where(literal_column(f"results.{IN_PROGRESS}"), results.c.run == run)
    return [(float(row.up), float(row.down)) for row in tx.execute(at_work.limit(most))]


def moved_bytes(tx: Tx, id: str, now: float, *, down: int = 0, up: int = 0) -> None:
    sheet = tx.sheets.nodes
    row, day = sheet.get(tx, id), int(now // DAY)
    if row is None:
        return
    same = row.day == day
    sheet.change(
        row,
        seen=now,
        bytes_down=row.bytes_down + down,
        bytes_up=row.bytes_up + up,
        sent_today=row.sent_today if same else 0,
        bytes_today=(row.bytes_today if same else 0) + down + up,
        day=day,
    )


def tested(tx: Tx, id: str, claim: dict[str, Any]) -> None:
    """What a node says of its own model. For people: nothing reads it but who shows it."""
    sheet = tx.sheets.nodes
    row = sheet.get(tx, id)
    if row is not None:
        sheet.change(row, tested=msgspec.json.encode(claim).decode())


_ITS: Final = select(results.c.task).where(results.c.node == bindparam("i"), results.c.state == "valid", results.c.verdict == "agreed")
_AGREED: Final = select(results.c.node).where(results.c.task.in_(_ITS), results.c.state == "valid", results.c.node != bindparam("i"))
_DOUBT: Final = Prepared(update(nodes).where(nodes.c.id.in_(_AGREED)).values(streak=0))  # who agreed with a liar is checked again


def judged(tx: Tx, id: str, *, good: bool, compared: bool, credit: float = 0.0, why: str = "", ban_after: int = 3) -> None:
    """A verdict on an answer; `why` it is bad. Only an answer that was compared adds to the streak; a bad one ends it (BOINC's adaptive
    replication)."""
    sheet = tx.sheets.nodes
    row = sheet.get(tx, id)
    if row is None:
        return
    if good:
        longer = int(compared)
        sheet.change(
            row,
            valid=row.valid + 1,
            agreed=row.agreed + longer,
            streak=row.streak + longer,
            credit=row.credit + credit,
            quota=min(row.quota * 2, LARGEST_QUOTA),
        )
        return
    sheet.change(row, invalid=row.invalid + 1, streak=0, quota=max(1, row.quota // 2))
    # only answers that were compared speak for a node: one that lies whenever it is trusted has many others
    if row.banned is None and row.invalid >= ban_after and row.invalid * 20 > row.agreed:
        sheet.change(row, banned=f"{row.invalid} of its answers were wrong (the last: {why}), {row.agreed} compared and good")
        _DOUBT.change(tx, i=id)


def lost(tx: Tx, ids: dict[str, int]) -> None:
    """So many leases of each ended without an answer."""
    sheet = tx.sheets.nodes
    for id, number in ids.items():
        row = sheet.get(tx, id)
        if row is not None:
            sheet.change(row, lost=row.lost + number, streak=0, quota=max(1, row.quota // 2))


def ban(tx: Tx, id: str, why: str | None) -> bool:
    """None: it may come back. Else whoever agreed with it is checked again."""
    if why is not None:
        _DOUBT.change(tx, i=id)
    columns: dict[str, Any] = {"banned": why} if why is not None else {"banned": None, "streak": 0, "invalid": 0}
    return bool(tx.execute(update(nodes).where(nodes.c.id == id).values(**columns)).rowcount)


_ACTIVE: Final = Prepared(
    select(func.count()).select_from(nodes).where(nodes.c.seen > bindparam("then"), nodes.c.banned.is_(None)), stale=True
)


_BESIDE: Final = Prepared(
    select(func.count())
    .select_from(nodes)
    .where(nodes.c.seen > bindparam("then"), nodes.c.banned.is_(None), nodes.c.token != bindparam("owner")),
    stale=True,
)


def active(tx: Tx, now: float, *, beside: int | None = None, kernels: Iterable[str] = ()) -> int:
    """Nodes that were heard of lately; `beside`: not those that came with this token; `kernels`: those that have them all."""
    if kernels:
        here = [nodes.c.seen > now - ACTIVE, nodes.c.banned.is_(None), *([nodes.c.token != beside] if beside is not None else [])]
        return int(tx.execute(select(func.count()).select_from(nodes).where(*here, *having(kernels))).scalar_one())
    return int(_ACTIVE.value(tx, then=now - ACTIVE) if beside is None else _BESIDE.value(tx, then=now - ACTIVE, owner=beside))


def having(kernels: Iterable[str]) -> list[Any]:
    """Conditions of nodes that have announced these kernels. Digests are looked for in the JSON, where no other text is one in quotes."""
    return [nodes.c.facts.contains(f'"{sha256}"', autoescape=True) for sha256 in sorted(kernels)]


def everyone(tx: Tx) -> list[dict[str, Any]]:
    rows = tx.execute(select(nodes, tokens.c.name.label("owner")).join(tokens).order_by(nodes.c.number)).mappings()
    return [{**row, **{name: msgspec.json.decode(row[name]) for name in ("facts", "tested")}} for row in rows]


# Tokens


def make_token(
    tx: Tx, now: float, *, name: str = "", uses: int | None = None, seconds: float | None = None, secret: str | None = None
) -> str:
    """A secret with which nodes may come; only its digest is kept."""
    secret = secret or secrets.token_urlsafe(24)
    expires = None if seconds is None else now + seconds
    tx.execute(insert(tokens).values(digest=_digest(secret), name=name, uses=uses, expires=expires, revoked=False, made=now))
    return secret


def use_token(tx: Tx, secret: str, now: float, *, known: bool) -> tuple[int | None, str]:
    """The token and "", or None and why not. A node that is known already uses it up no further."""
    row = tx.execute(select(tokens).where(tokens.c.digest == _digest(secret))).one_or_none()
    if row is None:
        return None, "token"
    if row.revoked:
        return None, "revoked"
    if row.expires is not None and now > row.expires:
        return None, "expired"
    if not known and row.uses is not None:
        if row.uses < 1:
            return None, f"used up: it has admitted all its nodes (for more: laminar grid token --id {row.id} --uses {ADMITTED})"
        tx.execute(update(tokens).where(tokens.c.id == row.id).values(uses=row.uses - 1))
    return int(row.id), ""


def admit(tx: Tx, id: int, uses: int) -> bool:
    """Let so many more nodes join with the token. Returns False if there is no valid token."""
    return bool(tx.execute(update(tokens).where(tokens.c.id == id, tokens.c.revoked.is_(False)).values(uses=uses)).rowcount)


def revoke_token(tx: Tx, id: int) -> int | None:
    """Nobody comes with it any more, and nodes that did are banned. How many; None: there is no such token."""
    if not tx.execute(update(tokens).where(tokens.c.id == id).values(revoked=True)).rowcount:
        return None
    theirs = list(tx.execute(select(nodes.c.id).where(nodes.c.token == id, nodes.c.banned.is_(None))).scalars())
    return sum(ban(tx, node, "its token was revoked") for node in theirs)


def all_tokens(tx: Tx) -> list[dict[str, Any]]:
    came = select(func.count()).select_from(nodes).where(nodes.c.token == tokens.c.id).scalar_subquery()
    columns = [tokens.c.id, tokens.c.name, tokens.c.uses, tokens.c.expires, tokens.c.revoked, tokens.c.made, came.label("nodes")]
    return [dict(row) for row in tx.execute(select(*columns).order_by(tokens.c.id)).mappings()]


_OWNER: Final = Prepared(select(tokens.c.name).where(tokens.c.id == bindparam("i")))


def personal(tx: Tx, token: int) -> bool:
    """Was it given to somebody in particular? Then all nodes that came with it are theirs."""
    return bool(_OWNER.value(tx, i=token))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
