"""Bytes that a training tells against those that the network's interface has counted.

    python benchmarks/sent_bytes.py [--workers 2,3,4] [--only fp16,downpour] [--epochs 2,12]        Linux with unshare and ip

Layers of a small MLP on the packaged digits: sync over torch.distributed with each compression, and averaging, downpour and quorum over
TCP instead of shared memory. All processes are in a network namespace of their own, whose loopback device nobody else uses. Each is built
with few epochs and with more, and no checkpoint before the end: the difference is that of steps and tests, without what beginning and
ending send (the first weights, what compression has kept back). Compressed to little, it takes many epochs to be more than chance.
The device counts headers of 52 bytes for each of its packets; without them there is what was told, wanted within 3 %.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import NamedTuple

from one_build import build

INSIDE = "LAMINAR_BENCHMARK_ALONE"
PORT = 7353
HEADERS = 20 + 32  # of IP, and TCP with time stamps
SPARSE = "sparsity = 0.999"
COMPRESS = {
    "dense": '"none"',
    "fp16": '"fp16"',
    "int8": '"int8"',
    "topk": '{ kind = "topk", sparsity = 0.99 }',
    "dgc": f'{{ kind = "dgc", {SPARSE}, warmup_epochs = 0 }}',
    "powersgd": '"powersgd"',
}
APART = {
    "averaging": 'kind = "averaging", every = 2',
    "averaging int8": 'kind = "averaging", every = 2, compress = "int8"',
    "downpour": 'kind = "downpour"',
    "downpour 2 servers": 'kind = "downpour", shards = 2',
    "quorum": 'kind = "quorum", quorum = 0.5',
}


class Counted(NamedTuple):
    told: int
    dense: int
    device: int
    packets: int

    def since(self, other: Counted) -> Counted:
        return Counted(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


def device() -> tuple[int, int]:
    """Bytes and packets that have gone over loopback."""
    with open("/proc/net/dev") as lines:
        words = next(line for line in lines if line.lstrip().startswith("lo:")).split()
    return int(words[1]), int(words[2])


def counted(strategy: str, epochs: int) -> Counted:
    before = device()
    optimizer = 'optimizer = "sgd", momentum = 0.9, lr = 0.02'
    train = f"epochs = {epochs}, batch = 64, {optimizer}, seed = 0, threads = 1, checkpoint_seconds = 3600, strategy = {{ {strategy} }}"
    told = build("laminar:mlp", train, args="{ hidden = [512, 512] }", source="digits")
    after = device()
    found = told.all("epoch")
    if "team" in found[-1]:
        sent, dense = told.all("end")[-1]["team"]["bytes"], 0
    else:
        sent, dense = (sum(epoch[name] or 0 for epoch in found) for name in ("bytes", "dense_bytes"))
    return Counted(sent, dense, after[0] - before[0], after[1] - before[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", default="2,3,4")
    parser.add_argument("--only", default="", help="some of the cases, by the beginnings of their names")
    parser.add_argument("--epochs", default="2,12")
    args = parser.parse_args()
    if INSIDE not in os.environ:
        words = ["unshare", "--map-root-user", "--net", sys.executable, *sys.argv]
        raise SystemExit(subprocess.run(words, env=os.environ | {INSIDE: "1"}, check=False).returncode)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # it misses the names of hosts
    few, many = map(int, args.epochs.split(","))
    wanted = tuple(args.only.split(","))
    cases = [
        (f"{name}, {workers} workers", f'kind = "sync", link = "gloo", workers = {workers}, compress = {compress}')
        for workers in map(int, args.workers.split(","))
        for name, compress in COMPRESS.items()
        if name.startswith(wanted)
    ]
    cases += [
        (f"{name}, 2 workers", f'{strategy}, workers = 2, host = "127.0.0.1", port = {PORT}')
        for name, strategy in APART.items()
        if name.startswith(wanted)
    ]
    print("MB                              told   sent: told/sent   on the device     all told   all sent")
    for name, strategy in cases:
        first, whole = counted(strategy, few), counted(strategy, many)
        steps, all_sent = whole.since(first), whole.device - HEADERS * whole.packets
        sent = steps.device - HEADERS * steps.packets
        figures = f"{steps.told / 1e6:10.3f} {sent / 1e6:10.3f} {steps.told / sent:6.3f} {steps.device / 1e6:15.3f}"
        figures += f" {whole.told / 1e6:12.3f} {all_sent / 1e6:10.3f}"
        if steps.dense not in (0, steps.told):
            figures += f"   1/{steps.dense / steps.told:.1f} of dense"
        print(f"{name:26} {figures}", flush=True)


if __name__ == "__main__":
    main()
