"""Positions in few bytes. Ascending positions below n are written in whichever of three ways is the shortest:

    BITS     one bit for each of the n                                 above about one in nine
    GAPS8    a byte for each gap between two positions                  down to about one in 370
    GAPS16   the same with two bytes (Lin et al., ICLR 2018, use 16-bit runs of zeros)

A gap is the number of positions left out. The largest word means "so many left out, and more to come", so any gap can be written.
Reading cannot give positions that descend, repeat or lie outside of n.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from laminar.parallel.compress.packet import BadPacket

Positions = NDArray[np.int64]


class Index(IntEnum):
    BITS = 1
    GAPS8 = 2
    GAPS16 = 3


_WORD: Final[dict[Index, np.dtype[Any]]] = {Index.GAPS8: np.dtype("<u1"), Index.GAPS16: np.dtype("<u2")}


def pack(positions: Positions, n: int) -> tuple[Index, NDArray[Any]]:
    """The shortest coding of strictly ascending positions below n, and its words."""
    bits = (n + 7) // 8
    if len(positions) < bits:
        gaps: Positions = np.diff(positions, prepend=-1) - 1
        sizes = {index: (len(gaps) + int((gaps // _most(word)).sum())) * word.itemsize for index, word in _WORD.items()}
        best = min(sizes, key=lambda index: (sizes[index], index))
        if sizes[best] < bits:
            return best, _words(gaps, _WORD[best])
    mask = np.zeros(n, dtype=np.bool_)
    mask[positions] = True
    return Index.BITS, np.packbits(mask, bitorder="little")


def unpack(index: int, words: memoryview, count: int, n: int) -> Positions:
    """The `count` positions in `words`; BadPacket unless they are exactly that many, all below n."""
    if index == Index.BITS:
        if words.nbytes != (n + 7) // 8:
            raise BadPacket(f"{words.nbytes} bytes of bits for {n} positions")
        bits = np.unpackbits(np.frombuffer(words, dtype=np.uint8), bitorder="little")
        found: Positions = np.flatnonzero(bits)
    elif index in (Index.GAPS8, Index.GAPS16):
        found = _from_words(words, _WORD[Index(index)])
    else:
        raise BadPacket(f"positions are coded as {index}, which is not known here")
    if len(found) != count:
        raise BadPacket(f"{len(found)} positions for {count} values")
    if count and found[-1] >= n:
        raise BadPacket(f"position {found[-1]} of {n}")
    return found


def _most(word: np.dtype[Any]) -> int:
    return int(np.iinfo(word).max)


def _words(gaps: Positions, word: np.dtype[Any]) -> NDArray[Any]:
    most = _most(word)
    more, last = np.divmod(gaps, most)
    if not more.any():
        return last.astype(word)
    ends = np.cumsum(more + 1) - 1  # where each gap's last word stands among all words
    words = np.full(int(ends[-1]) + 1, most, dtype=word)
    words[ends] = last
    return words


def _from_words(data: memoryview, word: np.dtype[Any]) -> Positions:
    if data.nbytes % word.itemsize:
        raise BadPacket(f"{data.nbytes} bytes are no whole number of {word.itemsize}-byte gaps")
    words = np.frombuffer(data, dtype=word)
    ends = words != _most(word)
    if len(words) and not ends[-1]:
        raise BadPacket("the last gap has no end")
    passed = np.cumsum(words, dtype=np.int64)  # no overflow: 2^47 words would be needed
    found: Positions = passed[ends] + np.arange(int(ends.sum()))
    return found
