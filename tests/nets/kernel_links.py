"""Links: native code is linked wherever memory is left, and gives what it should.

A child reserves the address space below everything else but for holes of a few pages, 3 GiB apart, as large tensors and fragmented memory
do: what is put into memory piece by piece (code, constants, tables) comes to lie further apart than 32 bits reach. A case is two small
kernels with constants, tables and local arrays, each linked five times there, and run.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.nets._warm_child import WarmChild, serve

KERNELS: Final = 2  # of a case
LINKS: Final = 5  # of each of them
APART: Final = 3 << 30  # bytes between two holes
HOLES: Final = (1, 1, 2, 1, 1, 3, 1, 5, 1, 8, 16)  # pages, from the highest; the next link finds what the one before has left
MANY: Final = 60  # in a row; the rows are so far apart:
ROW: Final = 1 << 20
SHAPES: Final = (
    "y[i] = x[i] * {0}f + {1}f;",
    "float t[8] = {{{0}f, {1}f, 3, 4.5f}}; y[i] = t[i % 8] + x[i];",
    "double v = x[i]; for (int k = 0; k < 5; k++) v = v * {0} + {1}; y[i] = (float)v;",
    "y[i] = expf(-x[i] * {0}f) + sqrtf(fabsf(x[i])) + {1}f;",
    "y[i] = i % 3 == 0 ? {0}f : i % 3 == 1 ? {1}f : x[n - 1 - i];",
    "float v = 0; for (int k = 0; k < n; k++) v += x[k] * (k % 2 == 0 ? {0}f : {1}f); y[i] = v;",
)

_child = WarmChild("tests.nets.kernel_links")


def check(seed: int) -> str:
    random = Random(seed)
    kernels = []
    for _ in range(KERNELS):
        body = random.choice(SHAPES).format(round(random.uniform(-2, 2), 6), round(random.uniform(-9, 9), 6))
        kernels.append(f"void kernel(int i, int n, const float x[n], float y[n]) {{ {body} }}")
    try:
        return str(_child.ask({"kernels": kernels, "n": random.choice([1, 7, 33, 200])}))
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(kernels)) from None


def close() -> None:
    _child.close()


# in the child

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_NO_RESERVE: Final = 0x4000
_FIXED: Final = 0x100000  # where it is asked for, or not at all


class Fragmented:
    """Address space that nobody has, but for holes: whoever maps memory next gets a hole, if it is large enough."""

    def __init__(self) -> None:
        self._begin, self._holes = 0, 0

    def more(self) -> None:
        """Some more holes; those before may be filled by now."""
        if not self._begin:
            self._begin = _libc.mmap(None, APART * MANY, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE, -1, 0)
            if self._begin in (None, ctypes.c_void_p(-1).value):
                raise MemoryError(f"{APART * MANY >> 30} GiB of addresses")
        self._fill(self._begin + APART * MANY)
        for pages in HOLES:
            row, place = divmod(self._holes, MANY)
            _libc.munmap(self._begin + (MANY - 1 - place) * APART + row * ROW, pages * mmap.PAGESIZE)
            self._holes += 1

    @staticmethod
    def _fill(above: int) -> None:
        """Take the gaps between libraries, where whoever maps little would be served first."""
        ends = above
        for line in Path("/proc/self/maps").read_text().splitlines():
            begin, end = (int(one, 16) for one in line.split(" ", 1)[0].split("-"))
            if begin > ends and "[stack]" not in line and "[v" not in line:
                _libc.mmap(ends, begin - ends, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE | _FIXED, -1, 0)
            ends = max(ends, end)


_fragmented = Fragmented()


def tried(case: dict[str, Any]) -> str:
    import numpy as np

    from laminar.kernels.analyse.space import Space
    from laminar.kernels.compile.host import host, object_code
    from laminar.kernels.compile.native import Native, text_of
    from laminar.kernels.compile.plan import planned
    from laminar.kernels.emulate.run import emulate
    from laminar.kernels.language.contract import contracted
    from laminar.kernels.language.kernel import read_kernel

    n = case["n"]
    x = np.linspace(-1, 1, n).astype("float32")
    for text in case["kernels"]:
        kernel = contracted(read_kernel(text))
        space = Space.of(kernel)
        plan = planned(kernel, space, host())
        code = object_code(text_of(kernel, space, plan))
        wanted = emulate(kernel, {"x": x, "y": np.zeros(n, "float32")}, {}, n).outputs["y"]
        linked = []
        for _ in range(LINKS):
            _fragmented.more()
            linked.append(Native(kernel, code, plan, independent=True))
        for native in linked:
            y = np.zeros(n, "float32")
            native.run([x, y], [], n)
            np.testing.assert_allclose(y, wanted, rtol=1e-6)
    return f"with {len(case['kernels']) * LINKS} links"


if __name__ == "__main__" and sys.argv[1:] == ["child"]:
    serve(tried)
