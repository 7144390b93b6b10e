"""Deep Gradient Compression against dense gradients: bytes, and accuracy after the same epochs.

    LAMINAR_DATA=… python benchmarks/compressed_training.py [--epochs 8] [--limit 20000]

A small convolutional network on Fashion-MNIST, four workers in sync, SGD with momentum; once dense and once with DGC at 99.9 %.
Bytes are those of the gradients that workers give each other, per step after the warm-up.
Wanted: bytes <= 1/200 of dense; accuracy within 0.5 points.
"""

from __future__ import annotations

import argparse

from one_build import Told, build

KIND = {"dense": '"none"', "dgc": '{ kind = "dgc", sparsity = 0.999, warmup_epochs = 4 }'}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    common = (
        f'epochs = {args.epochs}, batch = 256, seed = 0, threads = 1, schedule = "cosine", optimizer = "sgd", lr = 0.05, momentum = 0.9'
    )
    found: dict[str, Told] = {}
    for name, kind in KIND.items():
        found[name] = build("cnn", f'{common}, strategy = {{ kind = "sync", workers = {args.workers}, compress = {kind} }}')
        last = found[name].all("epoch")[-1]
        print(f"{name:6} accuracy {found[name].accuracy:.4f}, last epoch: {last}", flush=True)
    difference = 100 * (found["dgc"].accuracy - found["dense"].accuracy)
    print(f"DGC: {difference:+.2f} points")


if __name__ == "__main__":
    main()
