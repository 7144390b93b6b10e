"""Killed at every write, sync and rename of put and commit: the store is good, the ref is old or new, the next commit works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CHILD = r'''
import builtins, json, os, shutil, sys
from pathlib import Path

import numpy as np

from laminar.core import atomic
from laminar.store.store import Store
from laminar.store.verify import verify
from laminar.store import tensors
from laminar.testing.remote_contract import sample_layer

root = Path(sys.argv[1])
tensors.WORKERS = 1
template = root / "template"
store = Store.open(template)
weights = np.random.default_rng(0).standard_normal(40_000, dtype=np.float32)
base = sample_layer(store, "head", tensors={"w": weights, "b": np.zeros(3, np.float32)})
changed = weights.copy()
changed[::400] += 1
NEW = {"w": changed, "b": np.ones(3, np.float32), "big": np.arange(1_200_000, dtype=np.float32)}


for folder in (template / "objects").iterdir():
    if not any(folder.iterdir()):
        folder.rmdir()  # quicker to copy; and making them is one more place to die


def build(where):
    return sample_layer(Store.open(where), "head", tensors=NEW, parent=base.id)


real_write = os.write


class Dying:
    """Counts calls of the system; at number `last` it does half of the work, if work can be halved, and the process is gone."""

    def __init__(self, last):
        self.count, self.last = 0, last

    def at(self, half):
        self.count += 1
        if self.count == self.last:
            half()
            os._exit(9)

    def wrap(self, name):
        real = getattr(os, name)

        def call(*args, **options):
            if name in ("write", "pwrite"):
                fd, data = args[0], memoryview(args[1]).cast("B")
                self.at(lambda: real(fd, data[: len(data) // 2], *args[2:]))
            elif name == "writev":
                data = b"".join(args[1])
                self.at(lambda: real_write(args[0], data[: len(data) // 2]))
            elif name != "open" or args[1] & os.O_CREAT:
                self.at(lambda: None)
            return real(*args, **options)

        return call

    def install(self):
        for name in ("write", "pwrite", "writev", "fsync", "replace", "ftruncate", "unlink", "open", "mkdir", "utime"):
            setattr(os, name, self.wrap(name))
        real_open = builtins.open
        dying = self

        class File:
            def __init__(self, file):
                self._file = file

            def write(self, data):
                dying.at(lambda: (self._file.write(data[: len(data) // 2]), self._file.flush()))
                return self._file.write(data)

            def __getattr__(self, name):
                return getattr(self._file, name)

            def __enter__(self):
                return self

            def __exit__(self, *args):
                self._file.close()

        atomic.open = lambda path, mode="r", **options: File(real_open(path, mode, **options))


def run(number, where, work):
    """In a child that dies at call `number`; True if it did."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            Dying(number).install()
            work(where)
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 9), f"call {number}: the child ended with {code}"
    return code == 9


report = {"deaths": 0, "old": 0, "new": 0}
number = 0
while True:
    number += 1
    where = root / "store"
    shutil.copytree(template, where)
    died = run(number, where, build)
    after = Store.open(where)
    assert verify(after) == [], (number, verify(after))
    now = after.refs.get("digits/head")
    if died:
        report["deaths"] += 1
        report["old" if now == base.id else "new"] += 1
    layer = build(where)
    again = Store.open(where)
    assert again.refs.get("digits/head") == layer.id
    assert again.refs.state("digits/head").history == (base.id, layer.id)
    assert again.complete(layer.id) and again.complete(base.id)
    assert bytes(again.get_tensors(layer)["w"].data) == changed.tobytes()
    assert verify(again) == []
    shutil.rmtree(where)
    if not died:
        break
print(json.dumps(report))
'''


def test_killed_at_every_system_call(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path)], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["deaths"] > 40
    assert report["old"] > 30
    assert report["new"] >= 1
    assert report["old"] + report["new"] == report["deaths"]
