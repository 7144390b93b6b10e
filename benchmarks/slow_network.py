"""Two hosts with 100 Mbit/s and 20 ms (there and back) between them: an epoch of averaging, or with compressed gradients, against one of
dense DDP. Linux, root.

    LAMINAR_DATA=… python benchmarks/slow_network.py [--every 32,117] [--compress none,fp16] [--dgc averaging:every=117,sync]

All train a hidden layer of 128 on Fashion-MNIST with Adam and a global batch of 256 on two workers, one on each host. The hosts are
network namespaces of this machine with a line between them (laminar/testing/slow_link.py). The peer is PyTorch's
DistributedDataParallel over gloo, with gradients as views of its buckets; its samples are in memory and its Adam is fused.
Deep Gradient Compression (`--dgc`) has sgd with momentum, and sparsity 99.9 % from the first epoch on; a step of sync still takes as long
as the line is, however little is sent. Wanted: 20 times faster for each epoch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from laminar.testing.slow_link import SlowLink

PORT = 7351
PEER = """
import os, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from laminar.data.open import open_data
from laminar.data.spec import DataSpec
from pathlib import Path
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
data = open_data(DataSpec(source="fashion-mnist"), Path.cwd())
x = torch.from_numpy(data.train.x.reshape(60000, -1).copy()).float() / 255
y = torch.from_numpy(data.train.y.copy())
dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
for epoch in range(2):
    order = torch.randperm(60000, generator=torch.Generator().manual_seed(epoch))
    start = time.perf_counter()
    for batch in range(235 if epoch else 10):  # the first is for warming up
        rows = order[256 * batch : 256 * (batch + 1)].chunk(2)[rank]
        loss = nn.functional.cross_entropy(parallel(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(time.perf_counter() - start, flush=True)
dist.destroy_process_group()
"""


def ddp(link: SlowLink) -> float:
    """Seconds of an epoch."""
    processes = []
    for rank in (0, 1):
        environment = os.environ | {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": link.hosts[0],
            "MASTER_PORT": str(PORT - 1),
            "GLOO_SOCKET_IFNAME": link.device,
        }
        words = [*on_host(link, rank), sys.executable, "-c", PEER]
        processes.append(subprocess.Popen(words, env=environment, stdout=subprocess.PIPE if not rank else None, text=True))
    told, _ = processes[0].communicate()
    processes[1].wait()
    return float(told.split()[-1])


OURS = """
import sys
from laminar.parallel.crew import Crew
Crew.before = staticmethod(lambda role, rank: {elsewhere} if role == "worker" and rank == 1 else [])
from laminar.cli import main
sys.argv = ["laminar", "build", "-q"]
main()
"""


ADAM = 'optimizer = "adam", lr = 0.001'
DGC = 'optimizer = "sgd", momentum = 0.9, lr = 0.05'
SPARSE = 'compress = { kind = "dgc", sparsity = 0.999, warmup_epochs = 0 }'


def on_host(link: SlowLink, host: int) -> list[str]:
    """Words before a command that is to run on a host, which has one core."""
    return [*link.inside(host), "taskset", "--cpu-list", str(host)]


def by_servers(folder: Path, link: SlowLink) -> None:
    """A build on the first host, that starts its second worker on the other."""
    code = textwrap.dedent(OURS).format(elsewhere=repr(on_host(link, 1)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
    subprocess.run([*on_host(link, 0), sys.executable, "-c", code], cwd=folder, check=True, env=environment, stdout=subprocess.DEVNULL)


def by_ranks(folder: Path, link: SlowLink) -> None:
    """As torchrun starts them: one on each host."""
    ranks = []
    for rank in range(2):
        told = {"RANK": rank, "LOCAL_RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 1, "GROUP_RANK": rank}
        told |= {"MASTER_ADDR": link.hosts[0], "MASTER_PORT": PORT + 1, "GLOO_SOCKET_IFNAME": link.device, "LAMINAR_TOKEN": "0" * 32}
        environment = os.environ | {key: str(value) for key, value in told.items()}
        command = [*on_host(link, rank), sys.executable, "-m", "laminar", "build", "-q", "--on", "env"]
        ranks.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL))
    if any(one.wait(timeout=300) for one in ranks):
        raise SystemExit("a rank failed")


def ours(link: SlowLink, kind: str, strategy: str, optimizer: str, epochs: int) -> tuple[float, float, float]:
    """Seconds of an epoch but the first, accuracy, and bytes of an epoch."""
    import tempfile

    from one_build import MODELS, STACK, Told

    from laminar.core.events import read

    apart = kind != "sync"
    where = f'host = "{link.hosts[0]}", port = {PORT}' if apart else 'link = "gloo"'
    settings = f'{{ kind = "{kind}", workers = 2, {where}, {strategy} }}'
    # of averaging and downpour each worker has a batch of its own
    train = f"epochs = {epochs}, batch = {128 if apart else 256}, {optimizer}, seed = 0, threads = 1, strategy = {settings}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        factory, args = MODELS["mlp"]
        (folder / "laminar.toml").write_text(STACK.format(model=factory, args=args, train=train, source="fashion-mnist"))
        (by_servers if apart else by_ranks)(folder, link)
        (events,) = folder.glob(".laminar/runs/*/events.jsonl")
        told = Told(list(read(events)))
    bytes_of = [epoch["team"]["bytes"] for epoch in told.all("epoch") if "team" in epoch] or [0]
    return 60_000 / told.samples_per_second, told.accuracy, (bytes_of[-1] - bytes_of[0]) / max(1, len(bytes_of) - 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", default="32,117")
    parser.add_argument("--compress", default="none,fp16")
    parser.add_argument(
        "--dgc", default="averaging:every=117,sync", help="strategies with Deep Gradient Compression; settings after a :, with + between"
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rate", type=float, default=100e6)
    parser.add_argument("--delay", type=float, default=0.010)
    args = parser.parse_args()
    with SlowLink(rate=args.rate, delay=args.delay) as link:
        start = time.perf_counter()
        peer = ddp(link)
        print(f"DDP over gloo: {peer:.2f} s an epoch ({time.perf_counter() - start:.0f} s in all)", flush=True)
        cases = [
            (f"averaging every {every}, {packed}", "averaging", f'every = {every}, compress = "{packed}"', ADAM)
            for every in args.every.split(",")
            for packed in args.compress.split(",")
            if every and packed
        ]
        for case in filter(None, args.dgc.split(",")):
            kind, _, more = case.partition(":")
            cases.append((f"{case}, dgc", kind, ", ".join([SPARSE, *more.replace("=", " = ").split("+")]).rstrip(", "), DGC))
        for name, kind, strategy, optimizer in cases:
            seconds, accuracy, size = ours(link, kind, strategy, optimizer, args.epochs)
            sent = f" {size / 1e6:.1f} MB," if size else ""  # epochs of sync have no team
            figures = f"{seconds:.2f} s an epoch,{sent} accuracy {accuracy:.4f} after {args.epochs} epochs"
            print(f"{name}: {figures}: {peer / seconds:.1f}x", flush=True)


if __name__ == "__main__":
    main()
