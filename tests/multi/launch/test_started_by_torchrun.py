"""The same command, started once for each rank: by torchrun, or by whoever sets ranks and a token."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.multi.launch.cluster_project import ClusterProject


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TORCHELASTIC_"))}


def test_torchrun(tmp_path: Path) -> None:
    """Rank 0 builds, rank 1 is its agent; the layer is that of local processes."""
    here, there = ClusterProject(tmp_path / "here"), ClusterProject(tmp_path / "there")
    words = ["--standalone", "--nproc-per-node", "2", "-m", "laminar", "build", "-q", "--json", "--workers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words], cwd=there.folder, env=clean(), capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    (layer,) = json.loads(done.stdout)["layers"]
    assert layer["id"] == here.build(None, "sync").layers[0].id
    assert there.provenance(layer["id"])["on"]["launcher"] == "env"


def test_ranks_by_hand_and_nothing_to_do(tmp_path: Path) -> None:
    """As under Slurm: rank 0 listens where all know. When every layer is there already, the others are told so and leave."""
    project = ClusterProject(tmp_path / "p")
    project.build(None, "sync")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LAMINAR_TOKEN": "ours"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "laminar", "build", "--on", "env", "--workers", "2"],
            cwd=project.folder,
            env=clean() | common | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    said = [rank.communicate(timeout=100) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert "0 built, 1 layer reused" in said[0][0]
    assert said[1] == ("", "")
    assert not any("ours" in text for pair in said for text in pair)
