"""Refs: moves, history, rollback and redo against a model; damaged files; tags."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.core.clock import FakeClock
from laminar.core.errors import LaminarError
from laminar.store import reflog
from laminar.store.layout import Layout, open_layout, quoted, unquoted
from laminar.store.reflog import Entry, State
from laminar.store.refs import Refs, log_of

NAME = "digits/head"


def make(root: Path, clock: FakeClock | None = None) -> Refs:
    import contextlib

    layout = open_layout(root, create=True)
    return Refs(layout, lambda _: contextlib.nullcontext(), clock or FakeClock(1.0), known=lambda _: True)


@pytest.fixture
def refs(tmp_path: Path) -> Refs:
    return make(tmp_path / "s")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Layout(tmp_path / "s").ref(NAME)


def entry(op: str, id: str, n: int = 1, cursor: int | None = None) -> Entry:
    return Entry(n=n, op=op, id=id, was=None, time=0.0, why="", cursor=cursor)


def test_history_rollback_redo(refs: Refs) -> None:
    for id in "abc":
        refs.move(NAME, id, f"built {id}")
    assert refs.get(NAME) == "c"
    assert refs.back(NAME) == "b"
    assert refs.back(NAME) == "a"
    assert refs.redo(NAME) == "b"
    assert refs.redo(NAME) == "c"
    assert refs.to(NAME, "a") == "a"
    refs.move(NAME, "d", "built d")
    assert refs.state(NAME).history == ("a", "d")
    assert [e.op for e in refs.log(NAME)] == ["build"] * 3 + ["rollback", "rollback", "redo", "redo", "rollback", "build"]
    assert refs.log(NAME)[0] == Entry(n=1, op="build", id="a", was=None, time=1.0, why="built a")
    assert refs.to(NAME, "c") == "c"  # what a build after a rollback cut off is still to be had
    assert refs.at(NAME, 1) == "d"


def test_redo_lands_where_the_rollback_came_from(refs: Refs) -> None:
    for id in "abcd":
        refs.move(NAME, id, "")
    assert refs.back(NAME, 2) == "b"
    assert refs.redo(NAME) == "d"
    assert refs.back(NAME) == "c"
    assert refs.back(NAME, 2) == "a"
    assert refs.to(NAME, "d") == "d"  # forward
    assert [refs.redo(NAME) for _ in range(3)] == ["a", "c", "d"]
    assert refs.state(NAME).history == ("a", "b", "c", "d")
    with pytest.raises(LaminarError) as caught:
        refs.redo(NAME)
    assert caught.value.code == "L010"


def test_redo_brings_back_what_a_rollback_out_of_the_history_left(refs: Refs) -> None:
    for id in "abx":
        refs.move(NAME, id, "")
    refs.back(NAME)
    refs.move(NAME, "c", "")  # x is cut off
    assert refs.back(NAME) == "b"
    assert refs.to(NAME, "x") == "x"
    assert refs.state(NAME).history == ("a", "b", "x")
    assert refs.redo(NAME) == "b"
    assert refs.redo(NAME) == "c"
    assert refs.at(NAME, 2) == "a"


@pytest.mark.parametrize("op", ["build", "pull", "set", "import"])
def test_what_moves_a_ref_ends_what_can_be_redone(refs: Refs, op: str) -> None:
    for id in "abc":
        refs.move(NAME, id, "")
    refs.back(NAME, 2)
    refs.move(NAME, "a", "", op=op)  # where it is: nothing happened
    assert [undo.id for undo in refs.redoable(NAME)] == ["c"]
    refs.move(NAME, "b", "", op=op)
    assert refs.redoable(NAME) == ()
    with pytest.raises(LaminarError) as caught:
        refs.redo(NAME)
    assert caught.value.code == "L010"
    assert refs.back(NAME) == "a"
    assert refs.redo(NAME) == "b"


def test_an_id_that_stands_twice_in_the_history(refs: Refs, path: Path) -> None:
    for id in "abac":
        refs.move(NAME, id, "")
    assert refs.back(NAME, 3) == "a"
    assert refs.state(NAME).cursor == 0
    assert refs.redo(NAME) == "c"
    assert refs.back(NAME) == "a"
    assert refs.state(NAME).cursor == 2
    assert refs.back(NAME, 2) == "a"  # the same layer, but earlier
    assert refs.state(NAME).cursor == 0
    path.unlink()  # the log says so too
    assert refs.state(NAME).cursor == 0
    refs.redo(NAME)
    assert refs.at(NAME, 1) == "b"


def test_a_log_without_cursors_is_read_as_ever() -> None:
    """A redo went one forward then; one that is made now goes on from there."""
    old = [("build", "a"), ("build", "b"), ("build", "c"), ("rollback", "a"), ("redo", "b")]
    lines = b"".join(reflog.line(entry(op, id, n)) for n, (op, id) in enumerate(old, 1))
    assert b"cursor" not in lines
    read = reflog.parse(lines)
    assert read.bad == []
    state = reflog.replay(read.entries)
    assert (state.history, state.cursor, [undo.id for undo in state.undo]) == (("a", "b", "c"), 1, ["c"])
    state = reflog.step(state, entry("redo", "c", 6))
    assert (state.cursor, state.undo) == (2, ())


def test_nothing_moves_when_what_comes_first_fails(refs: Refs) -> None:
    for id in "abc":
        refs.move(NAME, id, "")
    seen: list[tuple[str | None, int, str]] = []

    def first(state: State, new: Entry) -> None:
        seen.append((state.id, new.n, new.id))
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        refs.back(NAME, 2, first=first)
    with pytest.raises(RuntimeError):
        refs.to(NAME, "b", first=first)
    assert seen == [("c", 4, "a"), ("c", 4, "b")]
    assert refs.get(NAME) == "c"
    refs.back(NAME)
    with pytest.raises(RuntimeError):
        refs.redo(NAME, first=first)
    assert refs.get(NAME) == "b"


def test_moving_to_where_it_is_changes_nothing(refs: Refs) -> None:
    refs.move(NAME, "a", "1")
    refs.move(NAME, "a", "2")
    assert len(refs.log(NAME)) == 1


def test_going_too_far_is_said(refs: Refs) -> None:
    refs.move(NAME, "a", "")
    calls: list[Callable[[], str]] = [lambda: refs.back(NAME), lambda: refs.redo(NAME), lambda: refs.at(NAME, 1)]
    for call in calls:
        with pytest.raises(LaminarError) as caught:
            call()
        assert caught.value.code == "L010"
    with pytest.raises(LaminarError, match="did you mean 'digits/head'") as caught:
        refs.back("digits/haed")
    assert caught.value.code == "L006"
    with pytest.raises(LaminarError):
        refs.back(NAME, 0)
    for bad in ("head", "a/b/c", "/a", "a/"):
        with pytest.raises(LaminarError):
            refs.move(bad, "a", "")


def test_a_ref_cannot_point_at_nothing(tmp_path: Path) -> None:
    refs = make(tmp_path / "s")
    refs._exists = lambda id: id == "a"
    refs.move(NAME, "a", "")
    with pytest.raises(LaminarError) as caught:
        refs.move(NAME, "b", "")
    assert caught.value.code == "L305"
    assert refs.get(NAME) == "a"


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.one_of(st.sampled_from("abcdef"), st.sampled_from(["<", ">", "<<"])), max_size=25))
def test_replay_is_an_undo_stack(words: list[str]) -> None:
    """Against the plainest model: a list, a cursor, and the cursors that rollbacks came from."""
    history: list[str] = []
    cursor = -1
    undo: list[int] = []
    state = State()
    for word in words:
        if word in ("<", "<<"):
            steps = len(word)
            if cursor < steps:
                continue
            undo.append(cursor)
            cursor -= steps
            state = reflog.step(state, entry("rollback", history[cursor], cursor=cursor))
        elif word == ">":
            if not undo:
                continue
            cursor = undo.pop()
            state = reflog.step(state, entry("redo", history[cursor], cursor=cursor))
        else:
            if cursor < 0 or history[cursor] != word:
                history = [*history[: cursor + 1], word]
                cursor += 1
                undo = []
            state = reflog.step(state, entry("build", word))
        assert (list(state.history), state.cursor, [u.cursor for u in state.undo]) == (history, cursor, undo)


def test_the_log_wins_over_a_ref_that_is_behind(refs: Refs, path: Path) -> None:
    """A writer killed between the two files has moved the ref."""
    refs.move(NAME, "a", "")
    old = path.read_bytes()
    refs.move(NAME, "b", "")
    path.write_bytes(old)
    assert refs.get(NAME) == "b"
    refs.move(NAME, "c", "")
    assert refs.state(NAME).history == ("a", "b", "c")


def test_a_half_line_is_nothing(refs: Refs, path: Path) -> None:
    """A writer killed inside the line has not moved the ref; the next one cuts it off."""
    refs.move(NAME, "a", "")
    size = log_of(path).stat().st_size
    refs.move(NAME, "b", "")
    for cut in range(size, log_of(path).stat().st_size, 9):
        whole = log_of(path).read_bytes()
        log_of(path).write_bytes(whole[:cut])
        path.unlink()
        assert refs.get(NAME) == "a"
        refs.move(NAME, "b", "")
        assert refs.state(NAME).history == ("a", "b")
        assert len(refs.log(NAME)) == 2


def test_a_lost_or_damaged_ref_is_read_from_its_log(refs: Refs, path: Path) -> None:
    refs.move(NAME, "a", "")
    refs.move(NAME, "b", "")
    path.write_bytes(path.read_bytes()[:-5])
    assert refs.get(NAME) == "b"
    path.unlink()
    assert refs.get(NAME) == "b"
    assert refs.names() == [NAME]


def test_a_damaged_log_is_no_reason_to_lose_the_ref(refs: Refs, path: Path) -> None:
    refs.move(NAME, "a", "")
    refs.move(NAME, "b", "")
    data = bytearray(log_of(path).read_bytes())
    data[20] ^= 1
    log_of(path).write_bytes(data)
    assert refs.get(NAME) == "b"
    with pytest.raises(LaminarError) as caught:
        refs.move(NAME, "c", "")
    assert caught.value.code == "L303"
    path.unlink()
    with pytest.raises(LaminarError, match=f"the history of {NAME} is damaged: line 1 of") as caught:
        refs.get(NAME)
    assert caught.value.code == "L303"


def test_tags(refs: Refs) -> None:
    refs.tag("digits:v1", "a")
    refs.tag("champion/2026 ü", "b")
    refs.tag("digits:v1", "a")
    assert refs.tags() == {"champion/2026 ü": "b", "digits:v1": "a"}
    assert refs.names() == []
    with pytest.raises(LaminarError, match="already names") as caught:
        refs.tag("digits:v1", "b")
    assert caught.value.code == "L008"
    refs.tag("digits:v1", "b", force=True)
    assert refs.tags()["digits:v1"] == "b"
    refs.untag("digits:v1")
    assert list(refs.tags()) == ["champion/2026 ü"]
    with pytest.raises(LaminarError):
        refs.untag("digits:v1")
    for bad in ("", "a~1", "a@b", "a#b"):
        with pytest.raises(LaminarError):
            refs.tag(bad, "a")


def test_a_stack_called_tags_is_no_tag(refs: Refs) -> None:
    refs.move("tags/head", "a", "")
    assert refs.tags() == {}
    assert refs.names() == ["tags/head"]
    assert refs.get("tags/head") == "a"


@given(st.text(min_size=1, max_size=8))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_any_name_is_a_file_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    text = quoted(name)
    assert unquoted(text) == name
    assert "/" not in text
    assert not text.startswith(".")
