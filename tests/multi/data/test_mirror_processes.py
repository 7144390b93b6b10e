"""Fetching in several processes: killed in the middle, interrupted, two at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
from mirror_servers import Mischief, naughty_http

from laminar.data.mirrors.cache import FileCache
from laminar.data.mirrors.fetch import fetch
from laminar.data.mirrors.wanted import CHUNK
from laminar.testing.mirror_contract import wanted

FILES = {"large.bin": np.random.default_rng(0).bytes(12 * CHUNK), "b.bin": np.random.default_rng(1).bytes(3 * CHUNK + 1)}
FILES |= {f"s/{i}.png": np.random.default_rng(i + 2).bytes(20_000) for i in range(100)}
TOTAL = sum(map(len, FILES.values()))

PROGRAM = """
import sys
from pathlib import Path
import msgspec
from laminar.data.mirrors.cache import FileCache
from laminar.data.mirrors.fetch import fetch
from laminar.data.mirrors.wanted import Wanted

folder, url = sys.argv[1:3]
files = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Wanted])
print("ready", flush=True)
done = fetch(files, [url], FileCache(Path(folder), 1 << 30), progress=lambda what, done, total: print(done, flush=True))
print("fetched", done.bytes, flush=True)
"""


def start(folder: Path, url: str) -> subprocess.Popen[bytes]:
    import msgspec

    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode([wanted(path, data) for path, data in FILES.items()]))
    process.stdin.close()
    return process


def complete(folder: Path) -> bool:
    return {path.name: path.read_bytes() for path in folder.glob("??/*")} == {wanted(p, d).sha256: d for p, d in FILES.items()}


def stop_in_the_middle(folder: Path, number: int) -> int:
    """Stop a fetch after a third of it; how much had arrived."""
    mischief = Mischief(FILES)
    with naughty_http(mischief) as url:
        process = start(folder, url)
        assert process.stdout is not None
        arrived = 0
        for line in process.stdout:
            if line.strip().isdigit():
                arrived = int(line)
                if arrived > TOTAL / 3:
                    break
        os.kill(process.pid, number)
        process.stdout.read()
        process.stdout.close()
        assert process.wait(30) != 0
    return arrived


def test_killed_in_the_middle(tmp_path: Path) -> None:
    for number in (signal.SIGKILL, signal.SIGINT):
        folder = tmp_path / number.name
        arrived = stop_in_the_middle(folder, number)
        assert not complete(folder)
        again = Mischief(FILES)
        with naughty_http(again) as url:
            done = fetch([wanted(p, d) for p, d in FILES.items()], [url], FileCache(folder, 1 << 30))
        assert complete(folder)
        assert done.bytes <= TOTAL - arrived
        assert again.sent <= TOTAL - arrived


class Overtaken(Mischief):
    """Before it gives anything, somebody else puts all files into the cache."""

    def __init__(self, files: dict[str, bytes], cache: FileCache) -> None:
        super().__init__(files)
        self.cache, self.once = cache, threading.Lock()

    def content(self, path: str) -> bytes | None:
        with self.once:
            for file, data in self.files.items():
                if self.cache.path(wanted(file, data).sha256) is None:
                    self.cache.keep(wanted(file, data).sha256, data)
        return super().content(path)


def test_what_another_process_fetched_meanwhile_is_not_said_to_be_ours(tmp_path: Path) -> None:
    files = {path: data for path, data in FILES.items() if path.startswith("s/")}
    mirror = Overtaken(files, FileCache(tmp_path / "c", 1 << 30))
    with naughty_http(mirror) as url:
        done = fetch([wanted(p, d) for p, d in files.items()], [url], FileCache(tmp_path / "c", 1 << 30))
        again = fetch([wanted(p, d) for p, d in files.items()], [url], FileCache(tmp_path / "c", 1 << 30))
    assert 0 < done.files < len(files) / 2
    assert done.files + done.by_others == len(files)
    assert done.bytes == 20_000 * done.files == done.mirrors[0].bytes
    assert (again.files, again.bytes, again.by_others) == (0, 0, 0)


def test_two_at_once_share_the_work(tmp_path: Path) -> None:
    mischief = Mischief(FILES)
    with naughty_http(mischief) as url:
        both = [start(tmp_path / "c", url) for _ in range(2)]
        for process in both:
            assert process.stdout is not None
            printed = process.stdout.read()
            process.stdout.close()
            assert process.wait(60) == 0
            assert b"fetched" in printed
    assert complete(tmp_path / "c")
    assert mischief.sent < 1.5 * TOTAL
    assert list((tmp_path / "c" / "parts").iterdir()) == []
