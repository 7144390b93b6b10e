"""A session with Spark: the one that is active in this process (a notebook), or one of our own, which ends without a trace.

Ours listens on one address, of this machine or of the interface by which the master is reached, shows no page, writes its log into a
folder that goes with it, and is called off when it is not there in time. The embedded cluster asks everybody for a secret; that of others
is as its owner has set it up. When this process dies, however, so does the JVM that it started, and with it the executors.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from laminar.core.errors import LaminarError
from laminar.core.figures import many
from laminar.core.scratch import scratch
from laminar.launch import spark_master

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOPBACK: Final = "127.0.0.1"
JVM: Final = 90.0  # seconds until the JVM of the driver is up, or the embedded cluster: on this machine, which may be busy
MASTER: Final = 45.0  # seconds until a master that can be reached has taken us in
LEAVE: Final = 15.0  # seconds in which a session ends
TICK: Final = 0.1  # seconds
MEMORY: Final = 1024  # MB of a worker of the embedded cluster
QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # JVMs that start soon and leave the cores to others: none of them computes
DEFAULTS: Final = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": QUICK}  # where the user has said nothing
_LOCAL: Final = re.compile(r"local(-cluster)?(\[.*\])?")
_LOG: Final = 5  # last lines of Spark's log in a message

T = TypeVar("T")


def load() -> None:
    with contextlib.suppress(ImportError):
        import pyspark
        import pyspark.java_gateway  # noqa: F401


def active() -> SparkContext | None:
    """The context of this process, if it has one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    found: SparkContext | None = SparkContext._active_spark_context
    return found


def task_number() -> str:
    """In a task: Spark's number of this attempt, which no other task of the session has."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return str(context.taskAttemptId())


def address(master: str | None) -> str:
    """Of this machine, by which the executors of `master` can call it. Never all interfaces."""
    if (context := active()) is not None:
        return LOOPBACK if _LOCAL.fullmatch(str(context.master)) else _driver_address(context)
    if not master or _LOCAL.fullmatch(master):
        return LOOPBACK
    if "SPARK_LOCAL_IP" in os.environ:
        return os.environ["SPARK_LOCAL_IP"]
    places = spark_master.places(master)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(places[0] if places else ("192.0.2.1", 9))  # sends nothing; without a known master, the way out of here
        except OSError as error:
            raise spark_master.unreachable(master, str(error)) from error
        return str(probe.getsockname()[0])


def would_be_own(master: str | None) -> bool:
    """Is its cluster, or would it be, started by this process on this machine?"""
    return active() is None and (not master or _LOCAL.fullmatch(master) is not None)


def _driver_address(context: SparkContext) -> str:
    """Where the driver listens itself; in a pod of Kubernetes `spark.driver.host` is the name of a service."""
    conf = context.getConf()
    told = [conf.get(f"spark.driver.{name}") for name in ("bindAddress", "host")]
    return str(next((one for one in told if one and one not in ("0.0.0.0", "::")), LOOPBACK))


@final
@dataclass
class Session:
    context: SparkContext
    master: str
    own: bool
    _gateway: Any = None
    _folder: Path | None = None
    _closed: bool = field(default=False, init=False)

    def close(self) -> None:
        """Nothing of it is left; another's session stays."""
        if self._closed or not self.own:
            return
        self._closed = True
        logging.getLogger().removeFilter(_not_of_py4j)
        with contextlib.suppress(Exception):  # its JVM may be dead already
            _within(LEAVE, self.context.stop)
        _end(self._gateway, self._folder)


def open_session(master: str | None, agents: int, off: threading.Event | None = None) -> Session:
    """L407 where Spark or Java is missing, or the master does not answer, or when `off` is set meanwhile."""
    if (context := active()) is not None:
        if master and master != context.master:
            raise LaminarError(
                "L407",
                f"this process has a Spark session with {context.master}, but {master} is wanted; a process has only one",
                hint="stop it (spark.stop()), or build with --on spark",
            )
        return Session(context, str(context.master), own=False)
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.find_spark_home import _find_spark_home
        from pyspark.java_gateway import launch_gateway
    except ImportError as error:
        raise LaminarError("L407", f"Spark is not installed: {error}", hint="pip install 'laminar-train[spark]'") from error
    _need_java()
    if master == "yarn" and not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
        raise LaminarError(
            "L407",
            "--on spark:yarn finds YARN by the settings of Hadoop, and neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set",
            hint="export HADOOP_CONF_DIR=/etc/hadoop/conf, or wherever yarn-site.xml is",
        )
    host = address(master)
    if master:
        spark_master.reach(master)
    chosen = master or f"local-cluster[{agents},1,{MEMORY}]"
    folder = scratch("laminar-spark-")
    environment = {"SPARK_LOCAL_IP": host, "JDK_JAVA_OPTIONS": f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {QUICK}".strip()}
    if chosen.startswith("local-cluster"):
        environment["SPARK_HOME"] = str(_home_with_a_work_folder(Path(_find_spark_home()), folder / "home"))
    conf = SparkConf(loadDefaults=False)
    for name, value in settings(chosen, agents, host, folder).items():
        conf.set(name, value)
    gateway, limit = None, JVM
    try:
        log = open(folder / "log", "wb")  # noqa: SIM115 - for as long as the JVM lives
        with log, _environment(environment):
            launch: Callable[..., Any] = launch_gateway
            # in a session of its own: a terminal that closes, or Ctrl-C, is for the chief alone
            gateway = _within(JVM, lambda: launch(conf, {"stdout": log, "stderr": log, "start_new_session": True}), off)
        written = SparkConf(_jvm=gateway.jvm)  # with the user's spark-defaults.conf
        for name, value in DEFAULTS.items():
            if not written.contains(name):
                conf.set(name, value)
        if chosen.startswith("local-cluster"):  # told to the JVM by its socket: others can read a command line
            conf.set("spark.authenticate", "true").set("spark.authenticate.secret", secrets.token_hex(32))
        limit = JVM if _LOCAL.fullmatch(chosen) else MASTER
        context = _within(limit, lambda: SparkContext(conf=conf, gateway=gateway), off)
    except BaseException as error:
        why = _last_lines(folder / "log")
        _end(gateway, folder)
        if not isinstance(error, Exception):
            raise
        if isinstance(error, CalledOff):
            raise LaminarError("L407", f"Spark at {chosen} is not needed any more", hint="laminar build") from None
        late = isinstance(error, TimeoutError)
        what = f"did not answer in {limit:g} s" if late else f"gave no session: {_first_line(error)}"
        raise LaminarError("L407", f"Spark at {chosen} {what}{why}", hint="laminar cluster check --on spark") from error
    logging.getLogger().addFilter(_not_of_py4j)
    context.pythonExec = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return Session(context, chosen, own=True, _gateway=gateway, _folder=folder)


def settings(master: str, agents: int, host: str, folder: Path) -> dict[str, str]:
    """Of a session of our own. What is not here is as in the user's spark-defaults.conf."""
    found = {
        "spark.master": master,
        "spark.app.name": f"laminar, {many(agents, 'worker')}",
        "spark.driver.host": host,
        "spark.driver.bindAddress": host,
        "spark.local.dir": str(folder),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.cores.max": str(agents),
        "spark.executor.cores": "1",  # so that a lost executor is one lost worker
        "spark.task.cpus": "1",
        "spark.task.maxFailures": "1000",  # who has failed too often is decided in spark_watch.py
        "spark.stage.maxConsecutiveAttempts": "1000",
        "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",  # 15 s otherwise, until cores are counted again
        "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "1000",
        "spark.locality.wait": "0",
        "spark.speculation": "false",  # two agents of one slot
        "spark.dynamicAllocation.enabled": "false",
        "spark.python.worker.reuse": "true",
    }
    if "PYTHONPATH" in os.environ:
        found["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    return found


def _home_with_a_work_folder(home: Path, ours: Path) -> Path:
    """The embedded cluster writes beside Spark's own files, which may be another's: a folder that looks like it."""
    ours.mkdir()
    for path in home.iterdir():
        if path.name != "work":
            (ours / path.name).symlink_to(path)
    return ours


def _need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")):
        where = f"in JAVA_HOME ({home})" if home else "on the path"
        raise LaminarError(
            "L407",
            f"Spark needs Java 17 or newer, and there is no java {where}",
            hint="install a JDK (Debian: apt install openjdk-17-jre-headless)",
        )


class CalledOff(Exception):
    """Nobody waits for it any more."""


def _within(seconds: float, work: Callable[[], T], off: threading.Event | None = None) -> T:
    """In a thread of its own (Spark would take Ctrl-C for itself in the main thread). TimeoutError if it takes longer."""
    found: list[T] = []
    wrong: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    until = time.monotonic() + seconds
    while thread.is_alive() and (left := until - time.monotonic()) > 0:
        if off is not None and off.is_set():
            raise CalledOff
        thread.join(min(left, TICK))
    if wrong:
        raise wrong[0]
    if not found:
        raise TimeoutError
    return found[0]


def _end(gateway: Any, folder: Path | None) -> None:
    from pyspark import SparkContext

    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
        process: subprocess.Popen[bytes] | None = gateway.proc
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()  # at which it ends
            try:
                process.wait(LEAVE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """It tells the root logger when the JVM dies, with a trace; we say it ourselves."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname


def _first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)  # Py4JJavaError: its own text is a trace
    text = str(java.toString() if java is not None else error)
    return text.splitlines()[0] if text else type(error).__name__


def _last_lines(log: Path) -> str:
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if " ERROR " in line or "Exception" in line]
    except OSError:
        return ""
    return f" ({' | '.join(lines[-_LOG:])[-600:]})" if lines else ""
