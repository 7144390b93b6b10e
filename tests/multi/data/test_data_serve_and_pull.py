"""laminar data serve and pull: one process is a mirror, another has the data set without its images."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from laminar.data.serve.troubles import told

STACK = """\
[stack]
name = "far"

[data.cells]
source = "{source}"
mirrors = {mirrors}
grey = true
fragment = {{ size = 8, overlap = 0.5, rotate = 30 }}
sample = {{ per_class = 20, seed = 3, sources = 2 }}

[[layer]]
name = "base"
model = "laminar:mlp"
args = {{ hidden = [8] }}
data = "cells"
train = {{ epochs = 1, batch = 16, seed = 0, threads = 1 }}
"""


@pytest.fixture
def images(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    for label in ("round", "square"):
        for i in range(6):
            path = tmp_path / "images" / label / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (20, 24), dtype=np.uint8)).save(path)
    (tmp_path / "images/secret.txt").write_text("not in the index")
    return tmp_path / "images"


def environment(tmp_path: Path, who: str) -> dict[str, str]:
    return os.environ | {"LAMINAR_CACHE": str(tmp_path / f"cache of {who}"), "OMP_NUM_THREADS": "1"}


@contextlib.contextmanager
def mirror(folder: Path, *words: str) -> Iterator[dict[str, Any]]:
    """A mirror in a process of its own; what it printed when it was ready. It has nothing to say but that."""
    command = [sys.executable, "-m", "laminar", "data", "serve", str(folder), "--host", "127.0.0.1", "--json", *words]
    here = environment(folder.parent, "mirror")
    with (
        tempfile.TemporaryFile() as printed,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=printed, text=True, env=here) as process,
    ):
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
            printed.seek(0)
            assert printed.read() == b""
        finally:
            process.kill()


def laminar(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "laminar", *words],
        cwd=folder,
        env=environment(folder.parent, "reader"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def project(tmp_path: Path, source: str, mirrors: list[str]) -> Path:
    folder = tmp_path / "far"
    folder.mkdir(exist_ok=True)
    (folder / "laminar.toml").write_text(STACK.format(source=source, mirrors=json.dumps(mirrors)))
    return folder


def test_a_layer_is_built_on_images_of_two_mirrors(tmp_path: Path, images: Path) -> None:
    with mirror(images, "--http", "0") as one, mirror(images, "--http", "0", "--ftp", "0") as two:
        assert set(one) == {"urls", "images", "sha256"}
        assert one["sha256"] == two["sha256"] and one["images"] == 12
        mirrors = [one["urls"][0], two["urls"][1]]
        assert mirrors[0].startswith("http://127.0.0.1:") and mirrors[1].startswith("ftp://127.0.0.1:")
        far = project(tmp_path, f"index:{mirrors[0]}/index.json#sha256={one['sha256']}", mirrors)
        pulled = laminar(far, "data", "pull", "cells", "--json")
        assert pulled.returncode == 0, pulled.stderr
        found = json.loads(pulled.stdout)
        assert 2 * 2 <= found["images"] < 12  # two of each class for training, fewer for testing
        assert found["fetched"]["files"] == found["images"]
    # the mirrors are gone: what was pulled is enough
    built = laminar(far, "build", "-q", "--json")
    assert built.returncode == 0, built.stderr
    # and the layer is the one that a build beside the images would make
    near = project(tmp_path, "folder:../images", [])
    status = laminar(near, "status", "--json")
    assert json.loads(status.stdout)["layers"][0]["action"] == "cached", status.stdout


def test_a_folder_that_is_only_on_its_mirrors(tmp_path: Path, images: Path) -> None:
    with mirror(images, "--ftp", "0") as served:
        far = project(tmp_path, "folder:images of another machine", served["urls"])
        shown = laminar(far, "data", "show", "cells", "--json", "--no-sheet")
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout)["images"] == 12


def test_rubbish_from_strangers_is_not_worth_a_word(images: Path) -> None:
    with mirror(images, "--http", "0", "--ftp", "0") as served:
        for url in served["urls"]:
            for rubbish in (b"rubbish\r\n\r\n", b"\xff\xfe\x00\r\n" * 3, b"USER root\r\nPASS x\r\nRETR ../x\r\n"):
                with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=30) as stranger:
                    stranger.sendall(rubbish)
                    stranger.shutdown(socket.SHUT_WR)
                    with contextlib.suppress(ConnectionError):
                        while stranger.recv(1 << 12):
                            pass


def test_troubles_of_a_library_are_told_in_a_line() -> None:
    heard: list[str] = []
    with told(heard.append):
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        logging.getLogger("pyftpdlib").error("Traceback (most recent call last):\n  File …\nOSError: [Errno 24] Too many open files\n")
        try:
            raise OSError(24, "Too many open files")
        except OSError:
            logging.getLogger("asyncio").exception("socket.accept() out of system resource")
    assert heard == ["pyftpdlib: OSError: [Errno 24] Too many open files", "asyncio: OSError: [Errno 24] Too many open files"]


def test_when_all_mirrors_are_down_each_is_named(tmp_path: Path, images: Path) -> None:
    with mirror(images, "--http", "0") as served:
        url = served["urls"][0]
    far = project(tmp_path, f"index:{url}/index.json", [url, "ftp://127.0.0.1:9"])
    shown = laminar(far, "data", "show", "cells")
    assert shown.returncode == 2
    assert "error L112" in shown.stderr and url in shown.stderr


def test_a_port_in_use_is_told(tmp_path: Path, images: Path) -> None:
    with mirror(images, "--http", "0") as served:
        port = served["urls"][0].rpartition(":")[2]
        again = laminar(tmp_path, "data", "serve", "images", "--http", port, "--host", "127.0.0.1")
    assert again.returncode == 2
    assert "error L008" in again.stderr and port in again.stderr
