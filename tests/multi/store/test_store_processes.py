"""Several processes in one store: locks and leases die with their holder, gc runs beside builds, commits do not get in each other's way."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from laminar.core.clock import FakeClock
from laminar.core.errors import LaminarError
from laminar.store import locks
from laminar.store.gc import plan_gc, sweep
from laminar.store.objects import GRACE
from laminar.store.store import Store
from laminar.store.verify import verify
from laminar.testing.remote_contract import sample_layer

HOLDER = """
import sys
from pathlib import Path
from laminar.store.store import Store
store = Store.open(Path(sys.argv[1]))
lease = store.lease(layers=["a"], runs=["r"])
with store.lock("key-1"):
    print("ready", flush=True)
    sys.stdin.read()
"""

BUILDER = """
import sys
from pathlib import Path
from laminar.store.store import Store
from laminar.testing.remote_contract import sample_layer
store = Store.open(Path(sys.argv[1]))
for seed in range(int(sys.argv[2]), int(sys.argv[2]) + 6):
    sample_layer(store, "shared", seed=seed)
    sample_layer(store, f"own{sys.argv[2]}", seed=seed)
"""


def test_killing_the_holder_frees_lock_and_lease(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(store.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        assert locks.living(store.layout, remove_dead=True) == locks.Needs(layers=("a",), runs=("r",))
        with pytest.raises(LaminarError) as caught, store.lock("key-1", timeout=0):
            pass
        assert caught.value.code == "L307"
        child.kill()
        child.wait()
        waited: list[int] = []
        with store.lock("key-1", timeout=5, on_wait=lambda: waited.append(1)):
            pass
        assert locks.living(store.layout, remove_dead=True) == locks.Needs()
    assert list(store.layout.leases.iterdir()) == []


def test_the_second_waits_for_the_first(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        with store.lock("key-1", on_wait=waiting.set):
            order.append("second")

    with store.lock("key-1"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_builds_side_by_side_with_gc(tmp_path: Path) -> None:
    """Two builders share a ref and gc runs all the time, for which everything is old: only leases, refs and locks protect what is new."""
    store = Store.open(tmp_path / "s")
    builders = [subprocess.Popen([sys.executable, "-c", BUILDER, str(store.root), str(start)], stderr=subprocess.PIPE) for start in (0, 3)]
    clock = FakeClock(0.0)  # gc's grace is what protects objects between put and commit: keep it
    rounds = 0
    while any(child.poll() is None for child in builders):
        import time

        clock.advance(time.time() + GRACE / 2 - clock.now())
        sweep(store, plan_gc(store, keep=1, clock=clock), clock=clock)
        rounds += 1
    for child in builders:
        _, errors = child.communicate()
        assert child.returncode == 0, errors.decode()
    assert rounds > 1
    assert verify(store) == []
    log = store.refs.log("digits/shared")
    assert len(log) >= 6
    assert [entry.n for entry in log] == list(range(1, len(log) + 1))
    assert all(store.complete(store.refs.get(name) or "") for name in store.refs.names())


def test_gc_waits_for_a_commit_and_a_commit_for_gc(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    layer = sample_layer(store)
    started = threading.Event()
    with store.gc_lock():

        def commit() -> None:
            started.set()
            sample_layer(Store.open(store.root), seed=1)

        thread = threading.Thread(target=commit)
        thread.start()
        assert started.wait(10)
        thread.join(0.2)
        assert thread.is_alive()
        assert store.refs.get("digits/head") == layer.id
    thread.join(20)
    assert store.refs.get("digits/head") != layer.id
