"""Fixed seeds of the net of links: native code in fragmented memory."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("pycparser")

from tests.nets import kernel_links


@pytest.mark.skipif(sys.platform != "linux", reason="reserves addresses as Linux maps them")
def test_code_is_linked_wherever_memory_is_left() -> None:
    """The older linker aborts at the first of these."""
    try:
        assert {kernel_links.check(seed) for seed in range(6)} == {"with 10 links"}
    finally:
        kernel_links.close()
