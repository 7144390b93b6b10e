"""A slow link: two network namespaces of this machine with a line between them that has a rate and a delay. Linux, root.

    with SlowLink(rate=100e6, delay=0.010) as link:
        subprocess.run([*link.inside(0), "python", …])     # on host 0, whose address is link.hosts[0]

Each side is a tun device; a process of ours carries packets from one to the other, each as late as the line would. So it works on kernels
without netem, and everything above the packets (TCP, its windows and its congestion control) is the system's own.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import selectors
import signal
import struct
import subprocess
import sys
import time
from types import TracebackType
from typing import Final, final

_TUNSETIFF: Final = 0x400454CA
_TUN, _NO_INFO = 0x0001, 0x1000
_MTU: Final = 1500
QUEUE: Final = 0.2  # seconds that a packet may wait for the line; beyond it is dropped, as a router drops


@final
class SlowLink:
    def __init__(self, *, rate: float, delay: float, name: str = "laminar") -> None:
        """`rate` in bits a second, each way; `delay` in seconds, one way."""
        self._rate, self._delay = rate, delay
        self._spaces = [f"{name}-{os.getpid()}-{side}" for side in (0, 1)]
        self.hosts = ("10.99.0.1", "10.99.0.2")
        self.device = "slow"
        self._carrier: subprocess.Popen[bytes] | None = None

    def inside(self, host: int) -> list[str]:
        """The words that run a command on that host."""
        return ["ip", "netns", "exec", self._spaces[host]]

    def __enter__(self) -> SlowLink:
        try:
            for space, address in zip(self._spaces, self.hosts, strict=True):
                _run("ip", "netns", "add", space)
                _run("ip", "-n", space, "link", "set", "lo", "up")
                _run("ip", "-n", space, "tuntap", "add", "mode", "tun", "name", self.device)
                _run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", self.device)
                _run("ip", "-n", space, "link", "set", self.device, "mtu", str(_MTU), "up")
            words = [sys.executable, "-m", __spec__.name, *self._spaces, self.device, str(self._rate), str(self._delay)]
            self._carrier = subprocess.Popen(words, stdout=subprocess.PIPE)
            assert self._carrier.stdout is not None
            if self._carrier.stdout.readline() != b"ready\n":
                raise OSError("the carrier of the slow link did not start")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._remove()

    def _remove(self) -> None:
        if self._carrier is not None:
            self._carrier.send_signal(signal.SIGTERM)
            self._carrier.wait()
            assert self._carrier.stdout is not None
            self._carrier.stdout.close()
        for space in self._spaces:
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL, check=False)


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


def _attach(space: str, device: str) -> int:
    """The other end of a tun device in a namespace: an open file that gives and takes its packets."""
    with open("/proc/self/ns/net") as home, open(f"/var/run/netns/{space}") as there:
        _setns(there.fileno())
        try:
            file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH", device.encode(), _TUN | _NO_INFO))
        finally:
            _setns(home.fileno())
    return file


def _setns(file: int) -> None:
    import ctypes

    CLONE_NEWNET = 0x40000000
    if ctypes.CDLL(None, use_errno=True).setns(file, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns failed")


def carry(files: tuple[int, int], rate: float, delay: float) -> None:
    """For ever: each packet leaves when the line is free for it, and comes `delay` later."""
    selector = selectors.DefaultSelector()
    for side in (0, 1):
        selector.register(files[side], selectors.EVENT_READ, side)
    under_way: list[tuple[float, int, int, bytes]] = []
    free = [0.0, 0.0]  # when each direction of the line is free again
    count = 0
    while True:
        now = time.monotonic()
        while under_way and under_way[0][0] <= now:
            _, _, side, packet = heapq.heappop(under_way)
            with contextlib.suppress(OSError):
                os.write(files[1 - side], packet)
        wait = max(0.0, under_way[0][0] - now) if under_way else None
        for key, _ in selector.select(wait):
            side = key.data
            with contextlib.suppress(BlockingIOError):
                for _ in range(64):
                    packet = os.read(files[side], 65536)
                    now = time.monotonic()
                    leaves = max(now, free[side])
                    if leaves - now > QUEUE:
                        continue
                    free[side] = leaves + 8 * len(packet) / rate
                    count += 1
                    heapq.heappush(under_way, (free[side] + delay, count, side, packet))


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    first, second, device, rate, delay = sys.argv[1:]
    files = (_attach(first, device), _attach(second, device))
    print("ready", flush=True)
    carry(files, float(rate), float(delay))


if __name__ == "__main__":
    main()
