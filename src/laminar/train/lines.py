"""Lines: rows of a batch begin on a cache line, wherever in a block they were gathered.

MKL multiplies matrices in another order when one begins at an address that is no multiple of 16 bytes, and rounds otherwise. Where a batch
lies in its block depends on where the block begins: on the batch that a run was resumed at, on which rows a member of a team takes, and on
how long it is to take them. Rows of 13 numbers then gave other bits.
"""

from __future__ import annotations

from typing import Final

from torch import Tensor

LINE: Final = 64  # bytes, on which torch's own memory begins, too


def on_a_line(rows: Tensor) -> Tensor:
    """The same rows, copied if they begin elsewhere. Rows of 16 numbers, or a multiple, never do. Labels need it not: what is done with
    them is done number by number."""
    return rows.clone() if rows.data_ptr() % LINE else rows
