"""Which connection is closed when there are too many: never that of a node that is known, nor of one that has just come."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.grid.server.door import NODE, OFTEN, OWN, SECRET, SHARED, Door, Visit, place_of


class Hall:
    """A door, and the connections that are open."""

    def __init__(self, most: int) -> None:
        self.counted: list[str] = []
        self.now = 0.0
        self.door = Door(most, self.counted.append, lambda: self.now)
        self.open: dict[int, Visit] = {}
        self.come_so_far = 0

    def come(self, host: str) -> int:
        number = self.come_so_far
        self.come_so_far += 1
        visit = self.door.come(host, lambda: self.open.pop(number, None))
        self.open[number] = visit
        return number

    def ask(self, number: int, name: str) -> bool:
        """A request that is signed, or is not; False: there is no room for it."""
        self.door.begins(self.open[number])
        good = not name or self.door.vouch(self.open[number], name)
        self.door.ends(self.open[number])
        return good


def test_one_address_takes_room_from_nobody_but_itself() -> None:
    hall = Hall(64)  # 16 of strangers, 8 of one address
    assert (hall.door.strangers_most, hall.door.place_most, hall.door.known_most) == (16, 8, 48)
    other = hall.come("10.0.0.2")
    crowd = [hall.come("10.0.0.1") for _ in range(1000)]
    assert sorted(hall.open) == [other, *crowd[-8:]] and len(hall.counted) == 992


def test_several_addresses_take_room_from_each_other_and_not_from_a_newcomer() -> None:
    hall = Hall(64)
    newcomer = hall.come("10.0.0.9")
    for turn in range(500):
        hall.come(f"10.0.0.{turn % 5}")
    assert newcomer in hall.open and len(hall.open) == hall.door.strangers == 16
    assert hall.ask(newcomer, NODE + "a") and hall.door.known == 1


def test_an_office_has_one_address_and_its_nodes_are_no_strangers() -> None:
    hall = Hall(64)
    nodes = []
    for number in range(40):
        nodes.append(hall.come("10.0.0.1"))
        hall.ask(nodes[-1], NODE + str(number))
    for _ in range(500):
        hall.come("10.0.0.1")
    assert set(nodes) <= set(hall.open) and hall.door.known == 40 and hall.door.strangers == 8


def test_whose_last_request_was_not_signed_is_a_stranger_again() -> None:
    hall = Hall(16)
    one = hall.come("a")
    hall.ask(one, NODE + "a")
    assert (hall.door.known, hall.door.strangers) == (1, 0)
    hall.ask(one, "")
    assert (hall.door.known, hall.door.strangers) == (0, 1)
    hall.come("a"), hall.come("a")
    assert one not in hall.open


def test_a_node_has_few_connections_and_a_secret_of_several_more() -> None:
    for name, most in ((NODE + "a", OWN), (SECRET + "view", SHARED)):
        hall = Hall(400)
        for _ in range(most + 3):
            assert hall.ask(hall.come("a"), name)
        assert (hall.door.known, hall.door.strangers) == (most, 3)


def test_the_known_that_ask_nothing_make_room_for_those_that_do() -> None:
    hall = Hall(8)  # 6 of the known
    nodes = []
    for n in range(6):
        nodes.append(hall.come(f"10.0.0.{n}"))
        hall.ask(nodes[-1], f"{NODE}{n}")
    hall.ask(nodes[0], NODE + "0")  # it has just been heard
    hall.door.begins(hall.open[nodes[1]])  # it is at something
    seventh = hall.come("10.0.0.7")
    assert hall.ask(seventh, NODE + "7") and nodes[2] not in hall.open and hall.door.known == 6
    for one in (*nodes, seventh):
        if one in hall.open:
            hall.door.begins(hall.open[one])
    last = hall.come("10.0.0.8")
    hall.door.begins(hall.open[last])
    assert not hall.door.vouch(hall.open[last], NODE + "8") and len(hall.open) == 7  # all are at something: come later


def test_who_is_gone_takes_no_room_when_its_request_is_found_to_be_signed() -> None:
    hall = Hall(16)
    visit = hall.open.pop(hall.come("a"))
    hall.door.begins(visit)
    hall.door.go(visit)
    assert hall.door.vouch(visit, NODE + "a")
    hall.door.ends(visit)
    hall.door.go(visit)
    assert (hall.door.known, hall.door.strangers) == (0, 0)


def test_a_line_in_the_log_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    hall = Hall(16)
    with caplog.at_level(logging.WARNING, "laminar.grid"):
        for _ in range(50):
            hall.come("10.0.0.1")
        assert len(caplog.records) == 1 and "10.0.0.1" in caplog.text
        hall.now += OFTEN
        hall.come("10.0.0.1")
    assert len(caplog.records) == 2 and "(47 more" in caplog.records[1].getMessage()
    assert hall.counted == ["crowd"] * 49


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:0:0:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("10.0.0.1", "10.0.0.2", False),
        ("no:address", "no:address", True),
    ],
)
def test_a_house_has_one_address(one: str, other: str, same: bool) -> None:
    assert (place_of(one) == place_of(other)) == same


@given(
    st.integers(4, 40),
    st.lists(st.tuples(st.sampled_from(["come", "go", "begin", "vouch", "end"]), st.integers(0, 30), st.integers(0, 5)), max_size=200),
)
def test_whatever_happens_the_room_is_enough_and_nobody_is_counted_twice(most: int, steps: list[tuple[str, int, int]]) -> None:
    hall = Hall(most)
    door = hall.door
    for what, which, who in steps:
        known = {number for number, visit in hall.open.items() if visit.name}
        if what == "come":
            number = hall.come(f"10.0.0.{who}")
            assert number in hall.open and known <= set(hall.open)
        elif hall.open:
            number = list(hall.open)[which % len(hall.open)]
            visit = hall.open[number]
            if what == "go":
                door.go(visit)
                hall.open.pop(number, None)
            elif what == "begin":
                door.begins(visit)
            elif what == "vouch":
                door.vouch(visit, f"{NODE}{who}")
            else:
                door.ends(visit)
        names = [visit.name for visit in hall.open.values()]
        assert door.known == sum(map(bool, names)) <= door.known_most and door.strangers == names.count("") <= door.strangers_most
        assert all(names.count(name) <= OWN for name in names if name)
        assert len(hall.open) <= max(most, 3)
    for visit in list(hall.open.values()):
        door.go(visit)
    assert not (door.known or door.strangers or door._places or door._names or door._idle)
