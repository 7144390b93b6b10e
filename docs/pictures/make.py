"""Make the pictures of docs/how-to-read-a-report.md again: a sweep over batches on the digits, and what its report draws. Some two minutes.

python docs/pictures/make.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SWEEP = """\
name = "batch"
title = "Which batch, and which rate?"
question = "Which batch reaches 0.9 in the fewest steps?"
repeats = 3
timed = false
measures = ["steps_to_target", "accuracy", "loss", "overfit"]
target = 0.9
set = { epochs = 8 }

[axes]
batch = [16, 64, 256, 512]
lr = [0.01, 0.003]
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "digits"
        laminar = [sys.executable, "-m", "laminar"]
        subprocess.run([*laminar, "init", str(project)], check=True)
        (project / "sweep.toml").write_text(SWEEP)
        subprocess.run([*laminar, "experiment", "run", "sweep.toml"], cwd=project, check=True)
        subprocess.run([*laminar, "experiment", "report", "batch", "--svg"], cwd=project, check=True)
        shutil.copy(project / "batch" / "steps-against-batch.svg", HERE)


if __name__ == "__main__":
    main()
