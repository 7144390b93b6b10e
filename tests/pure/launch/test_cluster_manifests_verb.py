"""`laminar cluster manifests`, as it is called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

LINE = ("cluster", "manifests", "--workers", "2", "--image", "laminar:1")


def call(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "laminar", *words], capture_output=True, text=True, timeout=60, check=False, env=os.environ | environment
    )


def test_yaml_json_and_a_file_say_the_same(tmp_path: Path) -> None:
    words = (*LINE, "--store-claim", "store:/store", "--node-selector", "a=b", "--node-selector", "c=d", "--build-args", "head --force")
    printed = call(*words)
    assert printed.returncode == 0 and printed.stderr == "", printed.stderr
    objects = json.loads(call(*words, "--json").stdout)
    assert list(yaml.safe_load_all(printed.stdout)) == objects
    out = tmp_path / "job.yaml"
    assert str(out) in call(*words, "--out", str(out)).stdout
    assert out.read_text() == printed.stdout
    assert objects[-1]["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b", "c": "d"}


def test_without_a_store_it_says_what_is_lost() -> None:
    done = call(*LINE)
    assert done.returncode == 0 and "--store-claim" in done.stderr


def test_mistakes_are_errors_with_a_way_out() -> None:
    done = call(*LINE, "--name", "My Job")
    assert done.returncode == 2 and "error L008" in done.stderr and "fix: --name my-job" in done.stderr and done.stdout == ""


def test_no_secret_of_the_environment_is_printed(tmp_path: Path) -> None:
    token = "0123456789abcdef0123456789abcdef"
    done = call(*LINE, LAMINAR_TOKEN=token, AWS_SECRET_ACCESS_KEY=token[::-1])
    assert done.returncode == 0
    assert token not in done.stdout + done.stderr and token[::-1] not in done.stdout + done.stderr
    out = tmp_path / "job.yaml"
    refused = call(*LINE, "--build-args", token, "--out", str(out), LAMINAR_TOKEN=token)
    assert refused.returncode == 2 and "LAMINAR_TOKEN" in refused.stderr
    assert token not in refused.stdout + refused.stderr and not out.exists()
