"""Numbered messages over a line that breaks: everything arrives once and in order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.launch.post import Post


class Line:
    """Two sides and what is on its way between them. When it breaks, all of that is lost."""

    def __init__(self) -> None:
        self.posts = Post(), Post()
        self.way: tuple[list[tuple[dict[str, Any], Any]], list[tuple[dict[str, Any], Any]]] = [], []
        self.arrived: tuple[list[Any], list[Any]] = [], []
        self.sent: tuple[list[Any], list[Any]] = [], []

    def send(self, side: int, what: int) -> None:
        self.sent[side].append((what, bytes([what])))
        self.way[side].append((self.posts[side].out({"what": what}, bytes([what])), bytes([what])))

    def deliver(self, side: int) -> None:
        """The oldest of what `side` has sent."""
        if self.way[side]:
            header, payload = self.way[side].pop(0)
            taken = self.posts[1 - side].take(dict(header))
            if taken is not None:
                self.arrived[side].append((taken["what"], bytes(payload)))

    def mend(self) -> None:
        for side in (0, 1):
            self.way[side].clear()
        for side in (0, 1):
            self.posts[side].was_seen(self.posts[1 - side].seen)
            self.way[side].extend(self.posts[side].again())


@given(st.lists(st.tuples(st.sampled_from(["send", "deliver", "beat", "mend"]), st.integers(0, 1), st.integers(0, 255)), max_size=60))
@settings(derandomize=True, max_examples=200)
def test_everything_arrives_once_and_in_order_whatever_breaks(acts: list[tuple[str, int, int]]) -> None:
    line = Line()
    for act, side, what in acts:
        match act:
            case "send":
                line.send(side, what)
            case "deliver":
                line.deliver(side)
            case "beat":
                line.way[side].append((line.posts[side].beat(), b""))
            case _:
                line.mend()
        for one in (0, 1):
            assert line.arrived[one] == line.sent[one][: len(line.arrived[one])]
    line.mend()
    for side in (0, 1):
        while line.way[side]:
            line.deliver(side)
        assert line.arrived[side] == line.sent[side]


def test_what_was_seen_is_not_kept() -> None:
    one, other = Post(), Post()
    for _ in range(3):
        other.take(one.out({}, b"1234"))
    assert one.unseen_bytes == 12
    one.take(other.beat())
    assert one.unseen_bytes == 0
    assert list(one.again()) == []


def test_a_message_that_was_left_out_is_noticed() -> None:
    one, other = Post(), Post()
    one.out({})
    with pytest.raises(ValueError, match="message 2 came after 0"):
        other.take(one.out({}))
