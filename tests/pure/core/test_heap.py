"""Memory that was freed is there for what comes next."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from laminar.core.heap import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    some = [bytearray(4 << 20) for _ in range(5)]
    del some
before = faults()
for _ in range(20):
    some = [bytearray(4 << 20) for _ in range(5)]
    del some
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_it_is_not_given_back_to_be_asked_for_again() -> None:
    def faults(how: str) -> int:
        return int(subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True).stdout)

    assert faults("kept") < faults("usual") / 4
