"""Drawing glyphs: every picture is a function of (seed, its number), so a larger count only adds pictures at the end.

Only sums, products, quotients and roots of float32 are used, one operation at a time. IEEE 754 fixes the result of each, so
every machine draws the same bytes; sines and matrix products would not do that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from laminar.core.seeds import derive
from laminar.data.dataset import Array
from laminar.data.drawing.font import DOMAINS, strokes
from laminar.data.order import counted, uniform
from laminar.data.sources.protocol import Progress

Floats = NDArray[np.float32]

_POSE = 10  # random numbers that place a picture as a whole
_BYTES = 1 << 22  # of one float32 plane of pixels: small enough to stay in the cache


def draw(domain: str, count: int, *, size: int, noise: float, seed: int, progress: Progress) -> tuple[Array, NDArray[np.int64]]:
    """x: (count, 1, size, size) bytes, ink bright on dark; y: the classes in turn."""
    glyphs = list(DOMAINS[domain].values())
    stream = derive(seed, "glyphs", domain)
    y = np.arange(count, dtype=np.int64) % len(glyphs)
    x = np.empty((count, 1, size, size), dtype=np.uint8)
    step = max(1, _BYTES // (4 * size * size))
    done = 0
    for label, glyph in enumerate(glyphs):
        for start in range(0, len(range(label, count, len(glyphs))), step):
            index = np.arange(label, count, len(glyphs))[start : start + step]
            x[index, 0] = _draw_some(glyph, index, stream, size, noise)
            done += len(index)
            progress("drawing glyphs", done, count)
    return x, y


def _draw_some(glyph: str, index: NDArray[np.integer], stream: int, size: int, noise: float) -> Array:
    lines = strokes(glyph)
    points = sum(len(stroke) for _, stroke in lines)
    u = uniform(counted(stream, index, _POSE + 2 * points)).astype(np.float32)
    pose, wobble = u[:, :_POSE], u[:, _POSE:].reshape(len(index), points, 2)
    pixel = np.float32(2.0 / size)  # the picture spans -1..1
    half = _between(pose[:, 6], 0.05, 0.13) + pixel * np.float32(0.25)  # half the width of the pen
    nearest = np.full((len(index), size, size), np.float32(9.0))
    grid = (np.arange(size, dtype=np.float32) + np.float32(0.5)) * pixel - np.float32(1)
    first = 0
    for is_round, stroke in lines:
        ends = np.array(stroke, dtype=np.float32)[None] + (wobble[:, first : first + len(stroke)] - np.float32(0.5)) * np.float32(1.1)
        first += len(stroke)
        x, y = _placed(_rounded(ends) if is_round else ends, pose)
        for j in range(x.shape[1] - 1):
            _nearer(nearest, grid, x[:, j], y[:, j], x[:, j + 1], y[:, j + 1])
    distance = np.sqrt(nearest)
    cover = np.clip((half[:, None, None] - distance) / pixel + np.float32(0.5), 0, 1)
    paper, ink = _between(pose[:, 7], 0.0, 0.2), _between(pose[:, 8], 0.55, 1.0)
    picture = paper[:, None, None] + (ink - paper)[:, None, None] * cover
    if noise:
        picture += np.float32(noise) * _grain(stream, index, size)
    levels: Array = (np.clip(picture, 0, 1) * np.float32(255) + np.float32(0.5)).astype(np.uint8)
    return levels


def _between(u: Floats, low: float, high: float) -> Floats:
    return np.float32(low) + np.float32(high - low) * u


def _rounded(points: Floats) -> Floats:
    """Chaikin's corner cutting, twice: nearly a quadratic B-spline. (G. Chaikin, An algorithm for high-speed curve generation, 1974.)"""
    for _ in range(2):
        a, b = points[:, :-1], points[:, 1:]
        cut = np.empty((points.shape[0], 2 * a.shape[1], 2), dtype=np.float32)
        cut[:, 0::2] = np.float32(0.75) * a + np.float32(0.25) * b
        cut[:, 1::2] = np.float32(0.25) * a + np.float32(0.75) * b
        cut[:, 0], cut[:, -1] = points[:, 0], points[:, -1]
        points = cut
    return points


def _placed(points: Floats, pose: Floats) -> tuple[Floats, Floats]:
    """Points of the grid, sheared, scaled, turned and moved into the picture."""
    x = (points[..., 0] - np.float32(3)) / np.float32(4)
    y = (points[..., 1] - np.float32(4)) / np.float32(4)
    x = x + _between(pose[:, 0], -0.3, 0.3)[:, None] * y
    x = x * _between(pose[:, 1], 0.55, 0.9)[:, None]
    y = y * _between(pose[:, 2], 0.55, 0.85)[:, None]
    t = _between(pose[:, 3], -0.13, 0.13)[:, None]  # tangent of half the angle: at most 15 degrees, without sine and cosine
    cosine = (1 - t * t) / (1 + t * t)
    sine = 2 * t / (1 + t * t)
    dx, dy = _between(pose[:, 4], -0.15, 0.15)[:, None], _between(pose[:, 5], -0.12, 0.12)[:, None]
    return cosine * x - sine * y + dx, sine * x + cosine * y + dy


def _nearer(nearest: Floats, grid: Floats, ax: Floats, ay: Floats, bx: Floats, by: Floats) -> None:
    """Lower `nearest` to the squared distance of every pixel from the line a-b."""
    dx, dy = (bx - ax)[:, None, None], (by - ay)[:, None, None]
    px, py = grid[None, None, :] - ax[:, None, None], grid[None, :, None] - ay[:, None, None]
    along = px * dx + py * dy
    along /= np.maximum(dx * dx + dy * dy, np.float32(1e-8))
    np.clip(along, 0, 1, out=along)
    ex, ey = px - along * dx, py - along * dy
    np.minimum(nearest, ex * ex + ey * ey, out=nearest)


def _grain(stream: int, index: NDArray[np.integer], size: int) -> Floats:
    """Nearly normal noise of deviation 1: three 21-bit uniforms summed, which needs neither logarithm nor cosine."""
    words = counted(derive(stream, "grain"), index, size * size).reshape(len(index), size, size)
    mask = np.uint64((1 << 21) - 1)
    total = (words & mask) + ((words >> np.uint64(21)) & mask) + (words >> np.uint64(42) & mask)
    grain: Floats = (total.astype(np.float32) * np.float32(2.0**-21) - np.float32(1.5)) * np.float32(2)
    return grain
