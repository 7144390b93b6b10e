"""A real standalone cluster of Spark on loopback, one master and some workers of one core each, for tests and benchmarks. Linux.

pyspark as pip installs it is enough. Nothing of it is left when the block ends, or when the process that started it dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, final

STARTING: Final = 120.0  # seconds until master and workers are up
MEMORY: Final = "1g"
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # JVMs that start at once: nothing here is worth optimising
_PR_SET_PDEATHSIG: Final = 1


def there() -> bool:
    """Are Spark and Java installed?"""
    return sys.platform == "linux" and importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None


@final
class SparkCluster:
    def __init__(self, workers: int = 4) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="laminar-spark-cluster-"))
        self._count = workers
        self.master: str = ""
        self.workers: list[subprocess.Popen[bytes]] = []
        self._master: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> SparkCluster:
        try:
            port = _free_port()
            self._master = self._daemon("master.Master", "master", "--port", str(port))
            self.master = f"spark://127.0.0.1:{port}"
            self._wait(lambda: _answers(port), "master")
            for _ in range(self._count):
                self.add_worker()
            self.wait_for_workers()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Workers first: they take their executors with them."""
        running = [*self.workers, *([self._master] if self._master is not None else [])]
        for process in running:
            process.terminate()
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add_worker(self) -> None:
        name = f"worker-{len(self.workers)}"
        words = ["--cores", "1", "--memory", MEMORY, "--work-dir", str(self._folder / name), self.master]
        self.workers.append(self._daemon("worker.Worker", name, *words))

    def executors(self) -> dict[int, list[int]]:
        """Processes of executors, by the number of their worker."""
        return {number: _children(worker.pid) for number, worker in enumerate(self.workers) if worker.poll() is None}

    def kill_worker(self, number: int) -> None:
        self.workers[number].kill()
        self.workers[number].wait()

    def wait_for_workers(self) -> None:
        """Until all that were added and live are known to the master."""
        for number, worker in enumerate(self.workers):
            if worker.poll() is None:
                self._wait(functools.partial(self._registered, number), f"worker-{number}")

    def _daemon(self, kind: str, name: str, *words: str) -> subprocess.Popen[bytes]:
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None and spec.submodule_search_locations
        home = spec.submodule_search_locations[0]
        environment = os.environ | {
            "SPARK_HOME": home,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self._folder / f"{name}-local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _QUICK,
        }
        with open(self._folder / f"{name}.log", "wb") as log:
            return subprocess.Popen(
                [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", "--webui-port", "0", *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_us,
            )

    def _registered(self, number: int) -> bool:
        return b"registered with master" in (self._folder / f"worker-{number}.log").read_bytes()

    def _wait(self, done: Callable[[], bool], name: str) -> None:
        until = time.monotonic() + STARTING
        while not done():
            if time.monotonic() > until:
                raise TimeoutError(f"{name} of Spark: {(self._folder / f'{name}.log').read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _children(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if _is_executor(child)]


def _is_executor(pid: int) -> bool:
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _die_with_us() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
