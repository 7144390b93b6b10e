"""Ray: agents as actors, one for each bundle of a placement group.

Ray's driver is a process of its own (ray_driver.py), because it ends the process it lives in when the head of its cluster dies, may wait
for ever for one that does not answer, and takes over signals and logging. So none of that happens to a build: it hears of it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import IO, Any, Final, final

from laminar.core.errors import LaminarError
from laminar.launch.protocol import Call, Trouble
from laminar.parallel.crew import Crew, LocalMember

DRIVER: Final = "laminar.launch.ray_driver"
EMBEDDED, FOUND = "local", "auto"  # Ray's own words: a new cluster on this machine; the one that runs on it
CONNECTING: Final = 30.0  # seconds until a cluster has answered
BEGINNING: Final = 60.0  # seconds until one has been started on this machine
SERVING: Final = 100.0  # seconds until one behind ray:// has started what serves us, if need be twice
PLACING: Final = 25.0  # seconds until it has room
CLIENT_PORT: Final = 10001
LOOPBACK: Final = "127.0.0.1"
DEBUG: Final = "LAMINAR_DEBUG"
LONGEST: Final = 160  # letters of Ray's last words
_PREFIX: Final = re.compile(r"^\[[^]]*\] (\(\w+\) )?(\S+:\d+: )?")  # when, where and by which thread Ray wrote a line
_INSTALL: Final = "pip install 'laminar-train[ray]'"
# A cluster of our own is nobody else's: it listens on loopback only, and asks for Ray's token even there.
_OWN: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}


@final
class RayLauncher:
    """`address`: None for a cluster of our own on this machine, `ray://HOST:10001`, `HOST:PORT`, or `auto` for the one that runs here.

    `host`: the address of this machine that Ray's nodes can call, where it is not found by itself.
    """

    name = "ray"
    fixed: int | None = None
    whole = False

    def __init__(self, address: str | None = None, *, host: str | None = None, placing: float = PLACING) -> None:
        self._address, self._host, self._placing = address or EMBEDDED, host, placing
        self._crew = Crew()
        self._driver: LocalMember | None = None
        self._orders = -1
        self._log: IO[bytes] | None = None
        self._nodes: list[str] | None = None  # addresses
        self._off = False  # nobody needs them any more
        self._placed = False
        self._crowded = False  # there is no room for one that was lost
        self._agents = 0
        self._troubles: list[Trouble] = []

    @property
    def own(self) -> bool:
        return self._address == EMBEDDED

    @property
    def host(self) -> str:
        if self._host is None:
            if self.own:
                self._host = LOOPBACK
            else:
                self._connect()
                assert self._nodes is not None
                self._host = reachable_from([*self._nodes, *([_place(self._address)[0]] if self._address != FOUND else [])])
        return self._host

    def begin(self) -> None:
        """Start the driver, which loads Ray while others read a stack file."""
        if self._driver is not None or find_spec("ray") is None:
            return
        read, self._orders = os.pipe()
        if not os.environ.get(DEBUG):
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        log = self._log.fileno() if self._log is not None else None
        brief = {"orders": read, "log": log, "placing": self._placing}
        environment = _OWN if self.own else {}
        try:
            files = [read, *([log] if log is not None else [])]
            self._driver = self._crew.start(DRIVER, "launcher", 0, brief, files=files, environment=environment)
        finally:
            os.close(read)

    def start(self, agents: int, call: Call, *, together: bool) -> None:  # noqa: ARG002 - a lost one is replaced, whatever it was for
        try:
            self._connect(agents)
            self._agents, self._placed, self._crowded = agents, False, False
            self._order({"agents": agents, "address": call.address, "token": call.token})
            asking = SERVING if self._address.startswith("ray://") else CONNECTING
            self._wait(lambda: self._placed, self._placing + asking, f"no answer to a request for {agents} CPUs")
        except BaseException:
            self.stop()
            raise

    def call_off(self) -> None:
        self._off = True

    def trouble(self) -> list[Trouble]:
        if self._driver is not None:
            self._hear(0)
            if self._driver.ended and self._placed:
                self._placed = False
                why = f"Ray's driver {self._driver.how_it_ended()}{self._last_words()}"
                self._troubles = [*(Trouble(slot, why) for slot in range(self._agents)), *self._troubles]
        found, self._troubles = self._troubles, []
        return found

    def comes_back(self) -> bool:
        return self._driver is not None and not self._driver.ended and not self._crowded

    def most(self) -> int | None:
        return None

    def stop(self) -> None:
        """Ends the driver, which takes everything with it that it has started."""
        if self._driver is None:
            return
        os.close(self._orders)  # the driver's sign to leave
        self._driver.wait(15.0)
        self._crew.__exit__(None, None, None)
        self._crew, self._driver, self._nodes, self._placed = Crew(), None, None, False
        if self._log is not None:
            self._log.close()

    # The driver

    def _connect(self, cpus: int | None = None) -> None:
        """L407 if there is no Ray, or none at the address."""
        if self._nodes is not None:
            return
        if find_spec("ray") is None:
            raise LaminarError("L407", "--on ray needs the library ray, which is not installed", hint=_INSTALL)
        if not self.own and self._address != FOUND:
            _call(self._address)
            if self._address.startswith("ray://"):
                self._address = "ray://{}:{}".format(*_place(self._address))  # Ray knows no usual port
        try:
            self.begin()
            self._order({"connect": self._address, "cpus": cpus})
            self._wait(
                lambda: self._nodes is not None,
                BEGINNING if self.own else SERVING if self._address.startswith("ray://") else CONNECTING,
                f"no answer from {self._address}",
            )
        except BaseException:
            self.stop()
            raise

    def _order(self, told: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended, and that is heard of
            os.write(self._orders, json.dumps(told).encode() + b"\n")

    def _wait(self, ready: Callable[[], bool], seconds: float, otherwise: str) -> None:
        until = time.monotonic() + seconds
        assert self._driver is not None
        while not ready():
            if self._off:
                self._driver.kill()  # with which the system ends what it has started
                raise LaminarError("L407", "Ray is not needed any more", hint="laminar build")
            if self._driver.ended:
                if self._driver.error is not None:
                    raise self._driver.error
                raise LaminarError(
                    "L407", f"Ray's driver {self._driver.how_it_ended()}{self._last_words()}", hint=f"{DEBUG}=1 shows its log"
                )
            if time.monotonic() > until:
                self._driver.kill()
                raise LaminarError("L407", f"{otherwise} within {seconds:g} s{self._last_words()}", hint="ray status on its head")
            self._hear(0.25)

    def _hear(self, timeout: float) -> None:
        for said in self._crew.hear(timeout):
            match said.event:
                case {"nodes": addresses}:
                    self._nodes = addresses
                case {"placed": _}:
                    self._placed = True
                case {"crowded": crowded}:
                    self._crowded = crowded
                case {"slot": slot, "trouble": why}:
                    self._troubles.append(Trouble(slot, why))
                case _:
                    pass

    def _last_words(self) -> str:
        """Of the driver's log: Ray writes a line there before it ends a process."""
        if self._log is None:
            return ""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - 4096))
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        return f": {_PREFIX.sub('', lines[-1])[:LONGEST]}" if lines else ""


def reachable_from(others: Iterable[str]) -> str:
    """An address of this machine that these hosts can call: loopback if they are all here, else that of the way to the first."""
    for other in others:
        if not _is_here(other):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:  # nothing is sent
                try:
                    way.connect((other, 9))
                except OSError as error:
                    raise LaminarError("L407", f"there is no way from here to {other}: {error}", hint="look at its address") from error
                return str(way.getsockname()[0])
    return LOOPBACK


def _is_here(host: str) -> bool:
    try:
        found = socket.gethostbyname(host)
        if ipaddress.ip_address(found).is_loopback:
            return True
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as own:
            own.bind((found, 0))
    except OSError:
        return False
    return True


def _place(address: str) -> tuple[str, int]:
    """Host and port. L407 if it has none."""
    rest = address.removeprefix("ray://").rstrip("/")
    host, colon, port = rest.rpartition(":")
    if not colon and address.startswith("ray://"):
        host, port = rest, str(CLIENT_PORT)
    if not host or not port.isdecimal():
        raise LaminarError(
            "L407", f"'{address}' is no address of a Ray cluster", hint="--on ray://HOST:10001, or --on ray:HOST:6379 on one of its nodes"
        )
    return host.strip("[]"), int(port)


def _call(address: str) -> None:
    """Does anybody listen there? Ray itself asks for much longer."""
    try:
        socket.create_connection(_place(address), timeout=CONNECTING / 3).close()
    except OSError as error:
        raise LaminarError(
            "L407",
            f"nobody answers at {address}: {error.strerror or error}",
            hint="look at the address (ray status on the head), or --on ray for a cluster of your own",
        ) from error


class LaminarAgent:
    """What Ray runs in a bundle. Its name is what `ps` and Ray's own lists show."""

    def serve(self, address: str, token: str, slot: int) -> Any:
        from laminar.launch.agent import serve

        return serve(address, token, slot)
