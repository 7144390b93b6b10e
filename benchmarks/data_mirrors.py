"""How fast is a fetch from two mirrors, and what does it cost when one of them dies half-way?

    python benchmarks/data_mirrors.py [--folder /tmp] [--size 80] [--rates 12 8] [--repeat 3]

Two mirrors on this machine, each a process of its own with a line of so many MB/s (a token bucket over all of its connections). The peer
is the same fetch from each of them alone, in the same run. Wanted: from both at least 0.9 of the sum of their speeds; with one of them
dying half-way nothing lost, and at most 1.3 times the time of the one that is left, alone. Two deaths: connections break and are
refused from then on; and silence, with connections left open. Two sets: large files, and many small ones.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from laminar.data.mirrors.cache import FileCache
from laminar.data.mirrors.fetch import Fetched, fetch
from laminar.data.mirrors.wanted import CHUNK, Wanted

BLOCK = 1 << 15


class Line:
    """A token bucket: so many bytes a second for all that use it, and no more than a little at once."""

    def __init__(self, rate: float) -> None:
        self._rate, self._free = rate, time.perf_counter()
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        with self._lock:
            self._free = max(self._free, time.perf_counter() - 0.02) + count / self._rate
            wait = self._free - time.perf_counter()
        if wait > 0:
            time.sleep(wait)


def serve(folder: Path, rate: float, dies_after: int, death: str) -> None:
    line, sent, silence = Line(rate), 0, threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            nonlocal sent
            data = memoryview(files[self.path.lstrip("/")])
            size, wanted = len(data), self.headers.get("Range")
            if wanted:
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                data = data[int(first) : int(last) + 1]
            self.send_response(206 if wanted else 200)
            if wanted:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            for at in range(0, len(data), BLOCK):
                if dies_after and sent >= dies_after:
                    if death == "dies":
                        import os

                        os._exit(1)
                    silence.wait()
                block = data[at : at + BLOCK]
                line.take(len(block))
                sent += len(block)
                self.wfile.write(block)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass

    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


@contextlib.contextmanager
def mirror(folder: Path, rate: float, dies_after: int = 0, death: str = "dies") -> Iterator[str]:
    command = [sys.executable, __file__, "--serve", str(folder), str(rate), str(dies_after), death]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.stdin.close()


def make(folder: Path, count: int, size: int) -> list[Wanted]:
    files = []
    folder.mkdir()
    for i in range(count):
        data = np.random.default_rng(i).bytes(size)
        (folder / f"{i}.bin").write_bytes(data)
        chunks = tuple(hashlib.sha256(data[at : at + CHUNK]).hexdigest() for at in range(0, size, CHUNK)) if size > CHUNK else ()
        files.append(Wanted(f"{i}.bin", hashlib.sha256(data).hexdigest(), size, chunks))
    return files


def timed(files: list[Wanted], urls: list[str]) -> Fetched:
    """A fetch into an empty cache, of which every file is then looked at."""
    with tempfile.TemporaryDirectory(prefix="laminar-bench-") as name:
        cache = FileCache(Path(name), 1 << 40)
        done = fetch(files, urls, cache)
        for file in files:
            path = cache.path(file.sha256)
            assert path is not None
            with open(path, "rb") as opened:
                assert hashlib.file_digest(opened, "sha256").hexdigest() == file.sha256
    return done


def run(title: str, folder: Path, files: list[Wanted], rates: tuple[float, float], repeat: int) -> None:
    total = sum(file.size for file in files)
    rows = []
    for _ in range(repeat):
        with mirror(folder, rates[0]) as a, mirror(folder, rates[1]) as b:
            one, two, both = (timed(files, urls).seconds for urls in ([a], [b], [a, b]))
        half = int(total * rates[0] / sum(rates) / 2)  # half of what it gives when both live
        broken = []
        for death in ("dies", "falls silent"):
            with mirror(folder, rates[0], half, death) as a, mirror(folder, rates[1]) as b:
                broken.append(timed(files, [a, b]).seconds)
        rows.append((one, two, both, (1 / both) / (1 / one + 1 / two), broken[0], broken[0] / two, broken[1], broken[1] / two))
    for row in rows:
        print(f"{title:14}" + "".join(f"{value:10.2f}" for value in row))
    print(f"{title + ', median':14}" + "".join(f"{statistics.median(values):10.2f}" for values in zip(*rows, strict=True)), flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        folder, rate, dies_after, death = sys.argv[2:]
        serve(Path(folder), float(rate), int(dies_after), death)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=None, help="where to put the data, for a while")
    parser.add_argument("--size", type=float, default=80, help="MB of each set")
    parser.add_argument("--rates", type=float, nargs=2, default=(12, 8), help="MB/s of the two lines")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    rates = (args.rates[0] * 1e6, args.rates[1] * 1e6)
    print(f"lines of {args.rates[0]:g} and {args.rates[1]:g} MB/s, {args.size:g} MB; seconds, and ratios (of sum >= 0.9, against B <= 1.3)")
    heads = ["A alone", "B alone", "both", "of sum", "A dies", "against B", "A silent", "against B"]
    print(" " * 14 + "".join(f"{head:>10}" for head in heads))
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        size = int(args.size * 1e6)
        for title, count in (("4 files", 4), ("2,000 files", 2000)):
            folder = Path(name) / str(count)
            run(title, folder, make(folder, count, size // count), rates, args.repeat)


if __name__ == "__main__":
    main()
