"""Deep Gradient Compression against dense gradients: bytes, and accuracy after the same epochs.

    LAMINAR_DATA=… python benchmarks/compressed_training.py [--data fashion-mnist|mnist] [--epochs 8] [--workers 4] [--lr 0.1] [--batch 256]
        [--model cnn|cnn-wide] [--link memory|gloo]

A small convolutional network on Fashion-MNIST or MNIST, four workers in sync, SGD with momentum; once dense and once with DGC at 99.9 %.
Bytes are per step after the warm-up: in shared memory those of the packets, once each; over gloo those on the wire, of which dense sums and
packets that go to all others are counted alike (parallel/sync/sent_bytes.py, held against a network interface by sent_bytes.py).
Wanted: bytes <= 1/200 of dense; accuracy within 0.5 points.
"""

from __future__ import annotations

import argparse

from one_build import Told, build


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--data", choices=["fashion-mnist", "mnist"], default="fashion-mnist")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--model", choices=["cnn", "cnn-wide"], default="cnn")
    parser.add_argument("--link", choices=["memory", "gloo"], default="memory")
    parser.add_argument("--dgc", default="warmup_epochs = 4", help="settings of the compression")
    args = parser.parse_args()
    kinds = {"dense": '"none"', "dgc": f'{{ kind = "dgc", sparsity = 0.999, {args.dgc} }}'}
    common = f'epochs = {args.epochs}, batch = {args.batch}, seed = 0, threads = 1, schedule = "cosine"'
    common += f', optimizer = "sgd", lr = {args.lr}, momentum = 0.9'
    found: dict[str, Told] = {}
    for name, kind in kinds.items():
        strategy = f'{{ kind = "sync", workers = {args.workers}, link = "{args.link}", compress = {kind} }}'
        found[name] = build(args.model, f"{common}, strategy = {strategy}", source=args.data)
        last = found[name].all("epoch")[-1]
        print(f"{name:6} accuracy {found[name].accuracy:.4f}, last epoch: {last}", flush=True)
    difference = 100 * (found["dgc"].accuracy - found["dense"].accuracy)
    print(f"DGC: {difference:+.2f} points")


if __name__ == "__main__":
    main()
