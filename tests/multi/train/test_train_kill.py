"""kill -9 at an arbitrary moment of a run, again and again: the next one goes on, and the bits are those of an unbroken run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

JOBS = Path(__file__).parents[2] / "torch" / "train"
sys.path.insert(0, str(JOBS))

from train_jobs import VARIANTS, figures, losses, same_bits, tensors  # noqa: E402

from laminar.train.loop import train  # noqa: E402

VARIANT = "adam, cosine, warm-up, clip"

CHILD = f"""
import sys
sys.path.insert(0, {str(JOBS)!r})
from pathlib import Path
import msgspec
import torch
torch.set_num_threads(1)
from train_jobs import VARIANTS
from laminar.train.loop import train
job = VARIANTS[{VARIANT!r}](Path(sys.argv[1]))
job.recipe = msgspec.structs.replace(job.recipe, checkpoint_steps=1)
train(job, lambda event: print(event["event"], flush=True))
"""


@pytest.mark.parametrize("stops", [(2, 5), (7,)])
def test_killed_runs_end_with_the_bits_of_an_unbroken_one(stops: tuple[int, ...], tmp_path: Path) -> None:
    whole = VARIANTS[VARIANT](tmp_path / "whole")
    train(whole)
    for stop in stops:
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path / "killed")], stdout=subprocess.PIPE, text=True)
        with child:
            assert child.stdout is not None
            told = 0
            for line in child.stdout:  # the event is told before the file is written: the kill comes at any moment of that, or after
                told += line.strip() == "checkpoint"
                if told == stop:
                    child.kill()
                    break
        assert child.returncode == -9
    again = VARIANTS[VARIANT](tmp_path / "killed")
    done = train(again)
    assert done.resumed_from is not None
    assert done.resumed_from >= sum(stops) - len(stops)
    assert done.notes == []
    assert same_bits(tensors(whole), tensors(again))
    assert losses(tmp_path / "killed") == losses(tmp_path / "whole")
    assert figures(tmp_path / "killed") == figures(tmp_path / "whole")
    assert not list((tmp_path / "killed").glob("*.tmp"))
