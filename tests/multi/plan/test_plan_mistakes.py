"""Mistakes that `laminar plan` tells of before anything is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm

STACK = """\
[stack]
name = "digits"

[data.all]
source = "digits"

[[layer]]
name = "base"
model = "laminar:mlp"
data = "all"
train = { epochs = 1 }

[[layer]]
name = "top"
replace = { head = "laminar:mlp" }
data = "all"
train = { epochs = 1 }
"""


@pytest.mark.parametrize(
    ("words", "said", "fix"),
    [
        (["top"], "L006: laminar.toml:13: layer 'top' stands on 'base', which is not built yet", "laminar build base"),
        (["base", "--explain", "0", "1"], "L008: --explain 0 1: plans are numbered from 1", "--explain 1 2"),
        (["base", "--batch", "5000"], "L008: --batch 5000, but layer 'base' has 1438 samples", "--batch 1438"),
        (["base", "--budget", "nan"], "L015", "--budget 10"),
        (["base", "--svg", "laminar.toml/step.svg"], "L008: --svg laminar.toml/step.svg: there can be no such file", "--svg plan.svg"),
        (["base", "--trace", "."], "L008: --trace .: there can be no such file", "--trace plan.trace"),
    ],
)
def test_what_is_wrong_is_said_at_once(tmp_path: Path, words: list[str], said: str, fix: str) -> None:
    (tmp_path / "laminar.toml").write_text(STACK)
    environment = {**os.environ, "LAMINAR_PROFILE": str(tmp_path / "profile.sqlite"), "LAMINAR_LEDGER": str(tmp_path / "ledger.sqlite")}
    command = [sys.executable, "-m", "laminar", "plan", *words, "-q"]
    found = warm.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert found.returncode == 2 and said in found.stderr and f"fix: {fix}" in found.stderr, found.stderr
    assert not list(tmp_path.glob(".laminar/runs/trial-*"))


def test_a_ledger_that_was_damaged_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    environment = {**os.environ, "LAMINAR_LEDGER": str(ledger)}
    for words in ([], ["--json"]):
        ledger.write_bytes(b"no database at all" * 100)
        command = [sys.executable, "-m", "laminar", "plan", "check", *words]
        found = warm.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        told = "".join(json.loads(found.stdout)["notes"]) if words else found.stderr
        assert found.returncode == 0 and f"the ledger {ledger} was damaged" in told, found.stderr
    assert (tmp_path / "ledger.sqlite.damaged-2").read_bytes().startswith(b"no database"), "and nothing of it is lost"
