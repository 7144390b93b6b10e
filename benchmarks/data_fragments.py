"""How fast are turned fragments cut, against three ways of doing it with Pillow?

    python benchmarks/data_fragments.py [--size 96] [--image 1024] [--fragments 256] [--rounds 5] [--edge mirror]

Pillow (what torchvision's rotate calls for its images), from the straightforward way to the cleverest, all with bilinear interpolation:

    whole      rotate the whole image about the fragment's centre, crop
    margin     crop the fragment with a margin as wide as a turn needs, rotate that, crop
    transform  Image.transform with an affine matrix, straight to the fragment

against `cut`, given all fragments of an image at once, and given one at a time. One thread, in turns, on the same places and
angles of a grid with rotate = 5; the ratio is of the fastest rounds. The difference is the mean over all pixels of what `cut` and
the straightforward way make, in grey levels; with --edge mirror they differ where a fragment leaves the image.
Wanted: 5 times `whole` or more, a difference of 1 or less.
Then: how long a table of 654 images takes to open, and its memory.
"""

from __future__ import annotations

import argparse
import math
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from laminar.data.fragments.cut import cut, prepare
from laminar.data.fragments.table import FragmentTable, Located
from laminar.data.order import subset
from laminar.data.spec import FragmentSpec

BILINEAR = Image.Resampling.BILINEAR
Pixels = NDArray[np.uint8]


def picture(side: int, channels: int) -> Pixels:
    """Waves, edges and noise: smooth parts flatter a difference, and noise alone exaggerates it."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:side, :side]
    waves = [127 + 50 * np.sin(x / (9 + 3 * c)) + 40 * np.cos(y / 5 + x / 31) for c in range(channels)]
    edges = 60 * (((x // 40) + (y // 56)) % 2)
    return np.clip(np.stack(waves) + edges + rng.normal(0, 12, (channels, side, side)), 0, 255).astype(np.uint8)


def whole(image: Image.Image, x: int, y: int, angle: int, size: int) -> Image.Image:
    return image.rotate(angle, BILINEAR, center=(x + size / 2, y + size / 2)).crop((x, y, x + size, y + size))


def margin(image: Image.Image, x: int, y: int, angle: int, size: int) -> Image.Image:
    wide = math.ceil(size * (math.sqrt(2) - 1) / 2) + 1
    around = image.crop((x - wide, y - wide, x + size + wide, y + size + wide))
    return around.rotate(angle, BILINEAR).crop((wide, wide, wide + size, wide + size))


def transform(image: Image.Image, x: int, y: int, angle: int, size: int) -> Image.Image:
    cosine, sine, half = math.cos(math.radians(angle)), math.sin(math.radians(angle)), size / 2
    matrix = (cosine, -sine, x + half - cosine * half + sine * half, sine, cosine, y + half - sine * half - cosine * half)
    return image.transform((size, size), Image.Transform.AFFINE, matrix, BILINEAR)


def chosen(side: int, spec: FragmentSpec, count: int) -> Located:
    """Turned fragments of a random sample of the image's grid; quarter turns are copies and would flatter us."""
    table = FragmentTable([(side, side)], spec)
    at = table.locate(subset(len(table), min(count * 2, len(table)), 0, "benchmark"))
    turned = np.flatnonzero(at.angle % 90)[:count]
    return Located(at.image[turned], at.x[turned], at.y[turned], at.angle[turned])


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cutting(side: int, channels: int, spec: FragmentSpec, count: int, rounds: int) -> None:
    pixels = picture(side, channels)
    image = Image.fromarray(pixels[0] if channels == 1 else pixels.transpose(1, 2, 0).copy())
    at = chosen(side, spec, count)
    places = list(zip(at.x.tolist(), at.y.tolist(), at.angle.tolist(), strict=True))
    out = np.empty((len(places), channels, spec.size, spec.size), dtype=np.uint8)
    prepared = prepare(pixels, spec)

    def by_pillow(way: Callable[[Image.Image, int, int, int, int], Image.Image], few: int) -> Pixels:
        made = np.empty((few, channels, spec.size, spec.size), dtype=np.uint8)
        for i, (x, y, angle) in enumerate(places[:few]):
            square = np.asarray(way(image, x, y, angle, spec.size))
            made[i] = square if channels == 1 else square.transpose(2, 0, 1)
        return made

    def one_by_one() -> None:
        for i in range(len(places)):
            cut(prepared, at.x[i : i + 1], at.y[i : i + 1], at.angle[i : i + 1], out[i : i + 1])

    few = max(1, len(places) // 8)  # of the slow way: enough to time it
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "whole": (lambda: by_pillow(whole, few), few),
        "margin": (lambda: by_pillow(margin, len(places)), len(places)),
        "transform": (lambda: by_pillow(transform, len(places)), len(places)),
        "one by one": (one_by_one, len(places)),
        "cut": (lambda: cut(prepared, at.x, at.y, at.angle, out), len(places)),
    }
    ways["cut"][0]()  # works out the turns, once a process
    best = dict.fromkeys(ways, math.inf)
    for _ in range(rounds):
        for name, (work, many) in ways.items():
            best[name] = min(best[name], seconds(work) / many)
    difference = np.abs(by_pillow(whole, len(places)).astype(np.int16) - out)
    print(f"{side}x{side}, {'grey' if channels == 1 else 'colour'}, edge = {spec.edge}: {len(places)} fragments of {spec.size} pixels")
    print(f"{'way':12}{'fragments/s':>12}{'ratio of cut':>14}{'ratio one by one':>18}")
    for name, time_each in best.items():
        print(f"{name:12}{1 / time_each:12,.0f}{time_each / best['cut']:14.1f}{time_each / best['one by one']:18.1f}")
    print(f"difference to `whole` in grey levels: {difference.mean():.4f} on average, {difference.max()} at most\n", flush=True)


def opening() -> None:
    spec = FragmentSpec(size=224, overlap=0.5, rotate=5)
    sizes = [(2272, 1704)] * 654
    took = min(seconds(lambda: FragmentTable(sizes, spec)) for _ in range(5))
    tracemalloc.start()
    table = FragmentTable(sizes, spec)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    index = subset(len(table), 100_000, 0, "benchmark")
    located = min(seconds(lambda: table.locate(index)) for _ in range(5))
    print(f"a table of 654 images of 2272x1704, {len(table):,} fragments: {1000 * took:.2f} ms, {held / 1000:.1f} kB;", end=" ")
    print(f"100,000 of them located in {1000 * located:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--image", type=int, default=1024)
    parser.add_argument("--fragments", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--edge", choices=["mirror", "black"], default="black", help="black is what Pillow does")
    args = parser.parse_args()
    spec = FragmentSpec(size=args.size, overlap=0.5, rotate=5, edge=args.edge)
    for channels in (1, 3):
        cutting(args.image, channels, spec, args.fragments, args.rounds)
    opening()


if __name__ == "__main__":
    main()
