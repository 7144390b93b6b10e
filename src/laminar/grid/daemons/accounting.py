"""Accounting: what an answer is compared by, and what each node keeps back (trust/accounts.py).

    none, fp16    the packet is the work. It is compared by sums that the server makes itself, by a table that no node knows
    int8          the same, less the packets that were not used and have come back in this one; rounding is allowed for
    topk, dgc     only the node has the work, so its own sketch of it is compared, and its packet held against its account

A node puts the packet of an unused answer back into its residual when it is told (node/worker.py). Its account follows in that moment: what
it sends between the verdict and the news does not have it yet.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import insert, select

from laminar.core.seeds import derive
from laminar.grid.db import custody, runs, uploads, versions
from laminar.grid.db.book import Tx
from laminar.grid.db.prepared import Prepared
from laminar.grid.db.runs import Run
from laminar.grid.db.schema import meta, residuals
from laminar.grid.settings import Settings
from laminar.grid.trust import accounts
from laminar.grid.trust.accounts import Account
from laminar.grid.trust.admission import Admitted, Refused, check_size, norm_of
from laminar.grid.trust.agreement import Given, magnitudes
from laminar.grid.wire.answer import BadAnswer, parse
from laminar.grid.wire.sketch import SIZE, SPARSE, Sketch, Sketcher, folded, sums_of
from laminar.parallel.compress.largest import most_of
from laminar.parallel.compress.packet import BadPacket, Packet
from laminar.parallel.compress.values import LEVELS, read_values
from laminar.train.compression import Dgc, Int8, TopK

_SECRET: Final = Prepared(select(meta.c.value).where(meta.c.key == "secret"))


@lru_cache(maxsize=8)
def _sketcher(numel: int, seed: int, sums: int | None = None) -> Sketcher:
    return Sketcher(numel, seed, sums)


def sketcher_of(settings: Settings) -> Sketcher:
    """The table that nodes have too."""
    return _sketcher(settings.layout.numel, derive(settings.recipe.seed, "grid sketch"))


def _own_sketcher(tx: Tx, run: Run, numel: int, what: str) -> Sketcher:
    """A table of the server's own: what it does not see cannot be aimed at."""
    return _sketcher(numel, derive(secret_of(tx), run.id, what), SIZE)


def secret_of(tx: Tx, first: int | None = None) -> int:
    """Of this database; it is sent to nobody. `first`: what it is to be where there is none yet."""
    if tx.secret is None:
        found = _SECRET.value(tx)
        if found is None:
            found = str(secrets.randbits(63) if first is None else first)
            tx.execute(insert(meta).values(key="secret", value=found))
        tx.secret = int(found)
    return tx.secret


def is_sparse(run: Run) -> bool:
    return run.settings.grid.compression.kind in SPARSE


def keeps_back(run: Run) -> bool:
    return run.settings.grid.compression.kind not in ("none", "fp16")


# Answers


def most_values(run: Run, progress: float) -> int | None:
    """Values that a packet has at most, where it is to be sparse."""
    spec = run.settings.grid.compression
    if not isinstance(spec, TopK | Dgc):
        return None
    ratio = 1 - spec.sparsity
    if isinstance(spec, Dgc) and spec.warmup_epochs:
        ratio = spec.ratio(progress)
    return most_of(run.settings.layout, ratio)


@dataclass(frozen=True)
class Seen:
    """What an answer is compared by: a sketch of the work, and one of the buffers where the model has any."""

    sketch: bytes
    norm: float


def look(tx: Tx, run: Run, node: str, admitted: Admitted, usual: float | None, now: float) -> Seen:
    """Refused where the packet cannot be of the work. The account follows."""
    if run.settings.grid.replicate == "never" and not keeps_back(run):
        check_size(admitted.norm, usual)
        return Seen(b"", admitted.norm)  # nobody will compare it
    if keeps_back(run):
        custody.drop(tx, run.id, node)  # it has what it took over, or begins anew
    work = _look_sparse(tx, run, node, admitted, now) if is_sparse(run) else _look_dense(tx, run, node, admitted, now)
    norm = admitted.work_norm if is_sparse(run) else norm_of(work)
    check_size(norm, usual)
    buffers = admitted.answer.buffers
    if not buffers.size:
        return Seen(work.tobytes(), norm)
    return Seen(np.concatenate([work, _own_sketcher(tx, run, buffers.size, "buffers").of(magnitudes(buffers))]).tobytes(), norm)


def given(result: int, node: str, seen: bytes, *, trusted: bool, valid: bool) -> Given:
    """For agreement.py: what `look` saw."""
    numbers = np.frombuffer(seen, "<f4")
    return Given(result, node, numbers[:SIZE], trusted, valid, numbers[SIZE:] if numbers.size > SIZE else None)


def tolerance_of(run: Run) -> float:
    """How far answers to one task may be apart, with what rounding to 8 bits may do to both.

    A block of b values has its largest at LEVELS steps, and each value is off by a step divided by sqrt(12), before and after.
    """
    how = run.settings.grid
    if isinstance(how.compression, Int8):
        return min(0.9, how.tolerance + math.sqrt(how.compression.block / 3) / LEVELS)
    return how.tolerance


def _look_dense(tx: Tx, run: Run, node: str, admitted: Admitted, now: float) -> Sketch:
    packet = _own_sketcher(tx, run, run.settings.layout.numel, "compare").of(admitted.values)
    if not keeps_back(run):
        return packet
    account = _account(tx, run, node)
    if not account.kept.any():
        return packet
    versions.keep_account(tx, run.id, node, Account(np.zeros_like(account.kept), None, account.returned).to_bytes(), now)
    return packet if admitted.answer.head.fresh else packet - account.kept


def _look_sparse(tx: Tx, run: Run, node: str, admitted: Admitted, now: float) -> Sketch:
    answer, before = admitted.answer, _account(tx, run, node)
    if answer.head.fresh:  # doubts stay
        before = Account(np.zeros_like(before.kept), doubt=before.doubt)
    with np.errstate(over="ignore", invalid="ignore"):
        checked = accounts.check(_worked(tx, run, before, answer.sketch, answer.head.version), _packet(tx, run, admitted), admitted.norm)
    if checked.wrong:
        raise Refused("account", checked.wrong)
    versions.keep_account(tx, run.id, node, checked.account.to_bytes(), now)
    return folded(answer.sketch)


def _packet(tx: Tx, run: Run, admitted: Admitted) -> Sketch:
    return _packet_of(tx, run, admitted.positions, admitted.values)


def _packet_of(tx: Tx, run: Run, positions: NDArray[np.int64] | None, values: NDArray[np.float32]) -> Sketch:
    if positions is not None:
        return sketcher_of(run.settings).of_some(positions, values)
    return _own_sketcher(tx, run, run.settings.layout.numel, "compare").of(values)


def _worked(tx: Tx, run: Run, account: Account, work: Sketch, version: int) -> Account:
    """What dgc.py makes of a gradient before it is kept: decay, clipping, momentum."""
    settings, spec = run.settings, run.settings.grid.compression
    if not settings.gradients or not isinstance(spec, Dgc):
        return account.worked(work)
    known = settings.recipe.settings()
    if known["weight_decay"]:
        work = work + np.float32(known["weight_decay"]) * _sketch_of_version(tx, run, version)
    clip = settings.recipe.clip if spec.clip is None else spec.clip
    if clip is not None:
        work = work * np.float32(min(1.0, clip * math.sqrt(settings.grid.workers) / max(norm_of(work), 1e-30)))
    return account.worked(work, known.get("momentum", 0.0), nesterov=bool(known.get("nesterov")))


_VERSIONS: Final[dict[str, Sketch]] = {}  # by digest


def _sketch_of_version(tx: Tx, run: Run, version: int) -> Sketch:
    key = f"{versions.sha256_of(tx, run.id, version)} {run.settings.recipe.seed}"
    if key not in _VERSIONS:
        row = versions.get(tx, run.id, version)
        if row is None or row.data is None:
            return np.zeros(sums_of(run.settings.layout.numel), np.float32)
        while len(_VERSIONS) >= 16:
            _VERSIONS.pop(next(iter(_VERSIONS)))
        numel = run.settings.layout.numel
        _VERSIONS[key] = sketcher_of(run.settings).of(np.frombuffer(bytes(row.data), "<f4", count=numel))
    return _VERSIONS[key]


# What is kept back


def _sums(run: Run) -> int:
    return sums_of(run.settings.layout.numel) if is_sparse(run) else SIZE


def _account(tx: Tx, run: Run, node: str) -> Account:
    return Account.from_bytes(versions.account(tx, run.id, node), _sums(run))


def account_of(tx: Tx, run: Run, node: str) -> Sketch:
    """Of what the node keeps back as far as it knows."""
    return _account(tx, run, node).kept


def put_back(tx: Tx, run: Run, node: str, result: int, now: float, *, accounted: bool) -> None:
    """An answer is not used. `accounted`: its packet was taken off the account; else not even its work was put on it, and its node is told
    at once."""
    if not keeps_back(run):
        return
    try:
        answer = parse(uploads.read(tx, result))
        positions, values = read_values(Packet.parse(answer.packet), run.settings.layout, run.settings.grid.compression)
    except (BadAnswer, BadPacket):
        return
    account = _account(tx, run, node)
    if accounted:
        account = account.with_back(_packet_of(tx, run, positions, values), told=False)
    else:
        if answer.head.fresh or not is_sparse(run):
            account = Account(np.zeros_like(account.kept), None, account.returned, account.doubt)
        if not is_sparse(run):  # all that was on the account is in the packet
            account = account.with_back(_packet_of(tx, run, positions, values), told=True)
        elif answer.sketch.shape != account.kept.shape or not np.isfinite(answer.sketch).all():
            return
        else:
            account = _worked(tx, run, account, answer.sketch, answer.head.version)
    versions.keep_account(tx, run.id, node, account.to_bytes(), now)


def told(tx: Tx, node: str, now: float) -> None:
    """The node hears of answers that were not used: from now on it has them again."""
    for row in tx.execute(select(residuals.c.run, residuals.c.account).where(residuals.c.node == node)).all():
        run = runs.get(tx, row.run)
        account = Account.empty(SIZE) if run is None else Account.from_bytes(row.account, _sums(run))
        if account.returned is not None:
            versions.keep_account(tx, row.run, node, account.told().to_bytes(), now)


def is_owed(tx: Tx, run: Run, node: str, row: NDArray[np.float32], usual: float | None) -> bool:
    """Is this what the node should have kept back? For somebody else will go on with it."""
    account, kept = account_of(tx, run, node), _packet_of(tx, run, np.arange(row.size) if is_sparse(run) else None, row)
    rounding = 0.0 if is_sparse(run) or usual is None else (tolerance_of(run) - run.settings.grid.tolerance) * usual
    size = max(norm_of(account), norm_of(kept))
    return norm_of(kept - account) <= run.settings.grid.tolerance * size + rounding
