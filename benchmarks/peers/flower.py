"""Rounds by Flower on this machine, in each of its two ways, as its documentation starts them. Needs a Python that has flwr and numpy.

Deployment: `flower-superlink`, a `flower-supernode` for each node and `flwr run`, insecure. Isolation is `subprocess`, the default: with
`process` one starts the same `flower-superexec` beside each of them by hand, which starts the same new process for every task. State is in
memory, also the default. No packages are installed at run time, no telemetry is sent, no updates are looked for. A SuperExec looks for
tasks once a second, unless another time is given; sixteen that look more often also take more of the processors.
In memory: `start_server` and `start_client`, each client a process, or all of them threads of one process.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from processes import LIMIT, Processes, processes

HERE = Path(__file__).parent
APP = """\
[project]
name = "rounds"
version = "1.0.0"
description = "The same rounds as those of a desktop grid"
license = "Apache-2.0"
dependencies = ["flwr"]

[tool.flwr.app]
publisher = "laminar"

[tool.flwr.app.components]
serverapp = "flower_app:server_app"
clientapp = "flower_app:client_app"

[tool.flwr.app.config]
nodes = {nodes}
rounds = {rounds}
into = "{into}"
"""
CONNECTION = """\
[superlink]
default = "here"

[superlink.here]
address = "{address}"
insecure = true
"""


def environment(python: Path, folder: Path, poll: float = 1.0) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return env | {
        "PATH": f"{python.parent}{os.pathsep}{env.get('PATH', '')}",  # supernodes start flower-superexec by its name
        "FLWR_HOME": str(folder / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": str(poll),
        "OPENBLAS_NUM_THREADS": "1",  # as our nodes have one thread
    }


def version(python: Path) -> str:
    asked = subprocess.run([python, "-c", "import flwr, numpy; print(flwr.__version__)"], capture_output=True, text=True, check=False)
    if asked.returncode:
        hint = "python3 -m venv V && V/bin/pip install flwr numpy, and --peer V/bin/python"
        raise SystemExit(f"{python} cannot import flwr and numpy: {asked.stderr.strip().splitlines()[-1]}\n{hint}")
    return asked.stdout.strip()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def reachable(running: Processes, server: str, port: int) -> None:
    until = time.monotonic() + LIMIT
    while running.all[server].poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise SystemExit(f"Flower's {server} does not listen on port {port}. Its last words:\n{running.last_words(server)}")


def rounds_of(into: Path, nodes: int, rounds: int) -> list[float]:
    """When each round was closed. With other answers than all of them it is no measurement."""
    found: list[dict[str, Any]] = [json.loads(line) for line in into.read_text().splitlines()] if into.exists() else []
    answers = [one["answers"] for one in found]
    if answers != [nodes] * rounds:
        raise SystemExit(f"Flower closed rounds with {answers} answers; {rounds} rounds with {nodes} answers each were asked for")
    return [one["closed"] for one in found]


def deployment(python: Path, nodes: int, rounds: int, poll: float) -> tuple[list[float], list[tuple[float, float]]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        into, app, home = folder / "rounds.jsonl", folder / "app", folder / "home"
        app.mkdir()
        home.mkdir()
        port, *ports = free_ports(1 + nodes)
        shutil.copy(HERE / "flower_app.py", app)
        (app / "pyproject.toml").write_text(APP.format(nodes=nodes, rounds=rounds, into=into.as_posix()))
        (home / "config.toml").write_text(CONNECTION.format(address=f"127.0.0.1:{port}"))
        with processes(folder, environment(python, folder, poll)) as running:
            link = [str(python.parent / "flower-superlink"), "--insecure", "--disable-runtime-dependency-installation"]
            running.start("superlink", [*link, "--host", "127.0.0.1", "--port", str(port)])
            reachable(running, "superlink", port)
            node = [str(python.parent / "flower-supernode"), "--insecure", "--superlink", f"127.0.0.1:{port}", "--host", "127.0.0.1"]
            for i, own in enumerate(ports):
                running.start(f"supernode-{i}", [*node, "--port", str(own)])
            beside = list(running.all)
            running.start("run", [str(python.parent / "flwr"), "run", str(app), "here", "--stream"])
            running.wait("run", beside)
            return rounds_of(into, nodes, rounds), running.used


def in_memory(python: Path, nodes: int, rounds: int, threads: bool) -> tuple[list[float], list[tuple[float, float]]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        into = folder / "rounds.jsonl"
        script = [str(python), str(HERE / "flower_in_memory.py")]
        (port,) = free_ports(1)
        address = f"127.0.0.1:{port}"
        with processes(folder, environment(python, folder)) as running:
            running.start("server", [*script, "server", address, str(nodes), str(rounds), str(into)])
            reachable(running, "server", port)
            for i in range(1 if threads else nodes):
                running.start(f"client-{i}", [*script, "client", address, str(nodes if threads else 1)])
            running.wait("server", [])  # its clients end when it does
            return rounds_of(into, nodes, rounds), running.used
