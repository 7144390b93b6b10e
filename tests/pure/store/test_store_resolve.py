"""What people type -> ids; locks, leases, projects; opening a store."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.store import locks
from laminar.store.manifest import encode
from laminar.store.resolve import resolve
from laminar.store.store import Store
from laminar.testing.remote_contract import sample_layer


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "s")


def code(call: object, *args: object) -> str:
    with pytest.raises(LaminarError) as caught:
        call(*args)  # type: ignore[operator]
    return caught.value.code


def test_every_form(store: Store) -> None:
    old, new = sample_layer(store, seed=1), sample_layer(store, seed=2)
    other = sample_layer(store, "head", stack="shapes", seed=3)
    store.refs.tag("digits:v1", old.id)
    store.refs.tag("champion", other.id)
    forms = {
        "head": new.id,
        "digits/head": new.id,
        "shapes/head": other.id,
        "head~": old.id,
        "head~1": old.id,
        "digits/head~1": old.id,
        "head~0": new.id,
        "digits:v1": old.id,
        "champion": other.id,
        old.id: old.id,
        old.id[:8]: old.id,
        old.id[:8].upper(): old.id,
        f"head@sha256:{old.id}": old.id,
        f"whatever@sha256:{old.id[:10]}": old.id,
        " head ": new.id,
    }
    for text, id in forms.items():
        assert resolve(store, text, "digits") == id, text
    assert resolve(store, "shapes/head") == other.id


def test_what_cannot_be_resolved(store: Store) -> None:
    layer = sample_layer(store)
    sample_layer(store, stack="shapes", seed=4)
    with pytest.raises(LaminarError, match="did you mean 'head'") as caught:
        resolve(store, "haed", "digits")
    assert caught.value.code == "L006"
    assert code(resolve, store, "head", None) == "L007"
    assert code(resolve, store, "head~1", "digits") == "L010"
    assert code(resolve, store, "nobody~1", "digits") == "L006"
    assert code(resolve, store, "x@sha256:0000", "digits") == "L006"
    assert code(resolve, store, f"x@sha256:{layer.id[:3]}", "digits") == "L008"


def test_an_ambiguous_prefix(store: Store) -> None:
    first = sample_layer(store)
    twin = first.id[:6] + "0" * 58
    store.layout.layer(twin).write_bytes(store.layout.layer(first.id).read_bytes())
    with pytest.raises(LaminarError, match="2 layers") as caught:
        resolve(store, first.id[:5])
    assert caught.value.code == "L007"


def test_a_name_that_looks_like_an_id(store: Store) -> None:
    layer = sample_layer(store, "beef")
    assert resolve(store, "beef", "digits") == layer.id


def test_a_damaged_tag_is_in_nobodys_way(store: Store) -> None:
    layer = sample_layer(store)
    for tag in ("digits:v1", "digits:v2"):
        store.refs.tag(tag, layer.id)
    path = store.layout.tag("digits:v1")
    path.unlink()
    path.with_suffix(".log").write_bytes(b"oops\n" + path.with_suffix(".log").read_bytes())
    for text in ("head", layer.id[:12], "digits:v2"):
        assert resolve(store, text, "digits") == layer.id
    assert code(resolve, store, "nobody", "digits") == "L006"
    with pytest.raises(LaminarError, match="the history of tag digits:v1 is damaged") as caught:
        resolve(store, "digits:v1", "digits")
    assert caught.value.code == "L303" and "laminar verify --repair" in caught.value.hint
    assert store.refs.tags(damaged=False) == {"digits:v2": layer.id} and code(store.refs.tags) == "L303"


@pytest.mark.parametrize("text", ["x" * 5000, "\udcff", "a\0b", "../../x", "~", "@sha256:"])
def test_what_no_file_can_be_called(store: Store, text: str) -> None:
    sample_layer(store)
    assert code(resolve, store, text, "digits") in ("L006", "L008")


def test_locks_exclude_and_time_out(store: Store) -> None:
    waited: list[int] = []
    with store.lock("key-1"):
        with store.lock("key-2"):
            pass
        with pytest.raises(LaminarError) as caught, store.lock("key-1", timeout=0, on_wait=lambda: waited.append(1)):
            pass
        assert caught.value.code == "L307"
    assert waited == [1]
    with store.lock("key-1", timeout=0, on_wait=lambda: pytest.fail("nobody holds it")):
        pass


def test_leases(store: Store) -> None:
    with store.lease(layers=["a"]) as lease:
        lease.add(layers=["b", "a"], runs=["r"], features=["f"])
        needs = locks.living(store.layout, remove_dead=True)
        assert needs == locks.Needs(layers=("a", "b"), runs=("r",), features=("f",))
    assert locks.living(store.layout, remove_dead=True) == locks.Needs()
    assert list(store.layout.leases.iterdir()) == []


def test_a_lease_without_its_holder_does_not_count(store: Store) -> None:
    lease = store.lease(layers=["a"])
    lease._lock.release()  # what the death of its process does
    assert locks.living(store.layout, remove_dead=False) == locks.Needs()
    assert len(list(store.layout.leases.iterdir())) == 2
    locks.living(store.layout, remove_dead=True)
    assert list(store.layout.leases.iterdir()) == []
    lease.close()


def test_a_lock_that_may_only_be_read_tells_whether_it_is_held(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    held, free = store.lease(runs=["r"]), store.lease(runs=["dead"])
    free._lock.release()

    class Refusing:
        def __init__(self, path: Path) -> None:
            self.path = path

        def acquire(self, *, blocking: bool) -> None:
            raise PermissionError(errno.EACCES, f"may not be written, blocking={blocking}", str(self.path))

    with monkeypatch.context() as patch:
        patch.setattr(locks, "_file_lock", Refusing)
        assert locks.living(store.layout, remove_dead=False).runs == ("r",)
        assert locks.is_free(store.layout.leases / "gone.lock")
    held.close()
    free.close()


def test_projects(store: Store, tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    store.register_project(project, {"digits/head": "a"})
    file = next(store.layout.projects.iterdir())
    before = file.stat().st_mtime_ns
    store.register_project(project, {"digits/head": "a"})
    assert file.stat().st_mtime_ns == before
    store.register_project(project, {"digits/head": "b"})
    (found,) = store.projects()
    assert (found.path, found.refs, found.exists()) == (str(project), {"digits/head": "b"}, False)
    (project / "laminar.toml").write_text("")
    assert found.exists()


def test_opening(tmp_path: Path) -> None:
    assert code(lambda: Store.open(tmp_path / "none", create=False)) == "L306"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").write_text("x")
    assert code(Store.open, tmp_path / "full") == "L306"
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["thesis.doc"]
    (tmp_path / "file").write_text("x")
    assert code(Store.open, tmp_path / "file") == "L306"
    store = Store.open(tmp_path / "s")
    assert Store.open(tmp_path / "s", create=False).layers() == []
    store.layout.format.write_text("12\n")
    for damaged in (False, True):
        with pytest.raises(LaminarError, match="format 12; this Laminar reads up to 1"):
            Store.open(tmp_path / "s", damaged=damaged)


def test_a_damaged_format_is_no_newer_one(store: Store) -> None:
    """Whatever bit flips: the error says how to mend it, and repair opens the store all the same."""
    from laminar.store.repair import repair
    from laminar.store.verify import verify

    layer = sample_layer(store)
    wrong = [bytes((b"1\n"[0] ^ 1 << bit, b"1\n"[1])) for bit in range(8)] + [b"1" + bytes([b"1\n"[1] ^ 1 << bit]) for bit in range(8)]
    for content in (*wrong, b"", None):
        if content is None:
            store.layout.format.unlink()
        else:
            store.layout.format.write_bytes(content)
        if content is None or content.strip() != b"1":
            with pytest.raises(LaminarError) as caught:
                Store.open(store.root, create=False)
            assert (caught.value.code, caught.value.hint) == ("L306", "laminar verify --repair"), content
        again = Store.open(store.root, create=False, damaged=True)
        (found,) = verify(again)
        assert (found.kind, found.problem) == ("format", "missing" if content is None else "corrupt")
        assert [how for _, how in repair(again, [found]).mended] == ["written again"]
        assert Store.open(store.root, create=False).complete(layer.id)


def test_looking_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("none", "empty"):
        store = Store.look(tmp_path / name)
        assert (store.layers(), store.refs.names(), store.refs.tags(), list(store.records())) == ([], [], {}, [])
    assert list(tmp_path.rglob("*")) == [tmp_path / "empty"]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").write_text("x")
    assert code(Store.look, tmp_path / "full") == "L306"  # as a build would say


def test_a_half_made_store_is_finished(tmp_path: Path) -> None:
    (tmp_path / "s" / "objects").mkdir(parents=True)
    (tmp_path / "s" / "tmp").mkdir()
    sample_layer(Store.open(tmp_path / "s"))


def test_records_newest_first_and_damaged_ones_left_out(store: Store) -> None:
    from laminar.core.clock import FakeClock

    first = sample_layer(store, seed=1, clock=FakeClock(1.0))
    second = sample_layer(store, seed=2, clock=FakeClock(2.0))
    assert [record.id for record in store.records()] == [second.id, first.id]
    assert store.record("0" * 64) is None
    path = store.layout.key(second.key)
    path.write_bytes(path.read_bytes()[:-1])
    assert [record.id for record in store.records()] == [first.id]
    assert code(store.record, second.key) == "L303"


def test_layers_that_are_not_there_or_of_the_future(store: Store) -> None:
    import msgspec

    layer = sample_layer(store)
    assert code(store.layer, "0" * 64) == "L305"
    future = msgspec.structs.replace(layer, format=2)
    assert code(store.write_layer, future) == "L306"  # nobody here could read it again
    store.layout.layer(layer.id).write_bytes(encode(future))
    assert code(store.layer, layer.id) == "L306"


def test_folders_stay_inside(store: Store) -> None:
    assert store.run_folder("r1").is_dir()
    assert store.features_folder("f1").is_dir()
    for bad in ("../x", "a/b", "..", "", "/etc", "a\n", "a\0", "x" * 10_000, "ü"):
        with pytest.raises(LaminarError, match="is no name of a run") as caught:
            store.run_folder(bad)
        assert caught.value.code == "L303"
        with pytest.raises(LaminarError, match="kept features"):
            store.features_folder(bad)
