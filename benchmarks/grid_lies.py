"""Which lies about a sparse packet does a grid's server see, beside an honest sketch of the work?

    python benchmarks/grid_lies.py [--rounds 20] [--nodes 6]

Networks of 85,000 and 1.1 million values are really trained by some nodes, which send one value of a hundred, or of a thousand, and keep
the rest. To each honest packet the lies are made that could have been sent in its place, and held against the node's account:

    one     refused at once (trust/accounts.py, DEVIATIONS)
    lies    how many in a row until they are refused together (TOGETHER); a liar's account has his lies on it
    before  what the check that this one replaced refused at once: |<r, p> - |p|^2| > 6 |r||p| / 16 + |p|^2 / 4

The last column is of an audit that was thought of and not built: the node hands in what it has kept back, which must be zero where it has
sent and have the sketch that is on its account. `fitted` is the share of audits that a liar passes who spreads the difference over all
other places: the table is public, so that is one division a sum. `change` is how much he changes for it, as a share of the packet.
Wanted: a packet that is turned round, five times too large, or random is seen within ten answers, and no honest one is refused.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from laminar.grid.trust import accounts
from laminar.grid.trust.accounts import Account
from laminar.grid.wire.sketch import Sketcher, distance, folded
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.make import make_compressor
from laminar.parallel.compress.values import read_values
from laminar.train.compression import TopK

FEATURES, CLASSES, STEPS, BATCH = 64, 10, 5, 32
LIES = ("honest", "turned round", "five times", "random", "shuffled", "nothing")
Row = np.ndarray[Any, np.dtype[np.float32]]


def lie(kind: str, values: Row, dice: np.random.Generator) -> Row:
    noise = dice.standard_normal(len(values)).astype(np.float32)
    made = {
        "honest": values,
        "turned round": -values,
        "five times": 5 * values,
        "random": noise * np.float32(np.linalg.norm(values) / np.linalg.norm(noise)),
        "shuffled": dice.permutation(values),
        "nothing": 0 * values,
    }
    return made[kind]


class Stream:
    """Packets as nodes send them, with the work behind each."""

    def __init__(self, hidden: int, nodes: int, sparsity: float) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(FEATURES, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))
        self.params = list(self.model.parameters())
        self.centres = torch.randn(3 * CLASSES, FEATURES) * 0.9
        self.layout = Layout.of({name: tuple(p.shape) for name, p in self.model.named_parameters()})
        self.spec = TopK(sparsity=sparsity)
        self.compressors = [make_compressor(self.spec, self.layout, workers=nodes) for _ in range(nodes)]

    def draw(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        cloud = torch.randint(0, 3 * CLASSES, (count,))
        return self.centres[cloud] + torch.randn(count, FEATURES), cloud % CLASSES

    def round(self) -> list[tuple[Row, np.ndarray[Any, np.dtype[np.int64]], Row]]:
        row = parameters_to_vector(self.params).detach().clone()
        total, found = torch.zeros_like(row), []
        for compressor in self.compressors:
            vector_to_parameters(row.clone(), self.params)
            optimizer = torch.optim.SGD(self.params, lr=0.05, momentum=0.9)
            for _ in range(STEPS):
                x, y = self.draw(BATCH)
                optimizer.zero_grad()
                cross_entropy(self.model(x), y).backward()
                optimizer.step()
            work = row - parameters_to_vector(self.params).detach()
            packet = compressor.encode(work.clone(), epoch_progress=10.0)
            at, values = read_values(packet, self.layout, self.spec)
            assert at is not None
            compressor.decode(packet, total, 1 / len(self.compressors))
            found.append((work.numpy(), at, values))
        vector_to_parameters(row - total, self.params)
        return found


def before(account: Account, packet: Row, norm: float) -> bool:
    """The check that was here first, with its 256 sums."""
    has, sent = folded(account.kept), folded(packet)
    size, found = float(np.linalg.norm(has)), float(np.dot(has, sent))
    return norm > 2 * size or abs(found - norm**2) > 6 * size * norm / 16 + norm**2 / 4


def fitted(sketcher: Sketcher, kept: Row, at: np.ndarray[Any, np.dtype[np.int64]], sent: Row) -> tuple[bool, float]:
    """Does a liar pass an audit who hands in zero where he has sent, and elsewhere what fits the account? And how much he has changed."""
    wanted = sketcher.of(kept) - sketcher.of_some(at, sent)
    honest = kept.copy()
    honest[at] = 0
    # a public table tells each place's sum and sign: by it the missing part of each sum is spread over the places of that sum
    signs = np.where(sketcher._signs > 0, np.float32(1), np.float32(-1))
    signs[at] = 0
    places = np.bincount(sketcher._sums, weights=np.abs(signs), minlength=sketcher.sums)
    missing = (wanted - sketcher.of(honest)) / np.maximum(places, 1)
    spread = (missing[sketcher._sums] * signs).astype(np.float32)
    handed = honest + spread
    return distance(sketcher.of(handed), wanted) < 0.1, float(np.linalg.norm(spread) / np.linalg.norm(kept[at]))


def measure(hidden: int, sparsity: float, nodes: int, rounds: int) -> None:
    stream, dice = Stream(hidden, nodes, sparsity), np.random.default_rng(0)
    numel = stream.layout.numel
    sketcher = Sketcher(numel, 7)
    honest = [Account.empty(sketcher.sums) for _ in range(nodes)]
    lying = {kind: [Account.empty(sketcher.sums) for _ in range(nodes)] for kind in LIES}
    until: dict[str, list[int]] = defaultdict(list)  # lies in a row until one was refused
    rows = {kind: [0] * nodes for kind in LIES}
    once: dict[str, list[bool]] = defaultdict(list)
    old: dict[str, list[bool]] = defaultdict(list)
    passes: list[bool] = []
    changes: list[float] = []
    shares: list[float] = []
    kept = np.zeros((nodes, numel), np.float32)
    for _ in range(rounds):
        for i, (work, at, values) in enumerate(stream.round()):
            sketch = sketcher.of(work)
            has = honest[i].worked(sketch)
            kept[i] += work
            shares.append(float(np.linalg.norm(values) / np.linalg.norm(kept[i])))
            for kind in LIES:
                sent = lie(kind, values, dice)
                packet, norm = sketcher.of_some(at, sent), float(np.linalg.norm(sent))
                once[kind].append(bool(accounts.check(Account(has.kept), packet, norm).wrong))
                old[kind].append(norm > 0 and before(has, packet, norm))
                found = accounts.check(lying[kind][i].worked(sketch), packet, norm)
                lying[kind][i], rows[kind][i] = found.account, rows[kind][i] + 1
                if found.wrong:  # caught: it begins anew, as the honest one is now
                    until[kind].append(rows[kind][i])
                    rows[kind][i] = 0
                    lying[kind][i] = accounts.check(has, sketcher.of_some(at, values), float(np.linalg.norm(values))).account
            passed, change = fitted(sketcher, kept[i], at, -values)
            passes.append(passed)
            changes.append(change)
            honest[i] = accounts.check(has, sketcher.of_some(at, values), float(np.linalg.norm(values))).account
            kept[i][at] -= values
    size = 4 * sketcher.sums + len(at) * 3.5
    print(
        f"\n{numel} values, sparsity {sparsity}: {sketcher.sums} sums, a packet is {np.mean(shares):.2f} of what is there, "
        f"sketch and packet {4 * numel / size:.0f} times smaller than dense; "
        f"audit: fitted {np.mean(passes):.0%}, change {np.mean(changes):.2f}"
    )
    print(f"{'lie':14s} {'before':>7s} {'one':>7s} {'lies':>7s}")
    for kind in LIES:
        lies = f"{np.mean(until[kind]):.1f}" if until[kind] else "never"
        print(f"{kind:14s} {np.mean(old[kind]):7.0%} {np.mean(once[kind]):7.0%} {lies:>7s}")
        if kind == "honest":
            assert not until[kind] and not any(once[kind]), "an honest packet was refused"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=6)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for hidden in (256, 1000):
        for sparsity in (0.99, 0.999):
            measure(hidden, sparsity, args.nodes, args.rounds)


if __name__ == "__main__":
    main()
