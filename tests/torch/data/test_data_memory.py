"""Peak memory for data ten times larger than the budget, from the fingerprint to the evaluation, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "data_memory.py"
BUDGET = 20_000_000


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    "sources", ["npz", pytest.param("idx-gz,folder,npy,npz-zipped,safetensors,csv,parquet,hf", marks=pytest.mark.slow)]
)
def test_the_peak_does_not_grow_with_the_data(sources: str) -> None:
    words = [sys.executable, str(SCRIPT), "--budget", str(BUDGET), "--sources", sources, "--json", "--no-peer"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for source, peak in json.loads(done.stdout).items():
        # 200 MB of data; half of the 200 MB that are allowed, or the test could not tell
        assert peak["whole"] < BUDGET + 120e6, (source, peak)
