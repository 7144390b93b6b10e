"""The swarm in virtual time: everything arrives if one honest mirror has it, at little surplus, quickly; else it says so, quickly."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirror_simulation import BLOCK, Mirror, Simulation, sized

from laminar.data.mirrors.faults import Kind
from laminar.data.mirrors.health import Health, Meter, Patience
from laminar.data.mirrors.pending import runs_without
from laminar.data.mirrors.swarm import Swarm
from laminar.data.mirrors.swarm_messages import Arrived, Failed, Had, Start, Tick
from laminar.data.mirrors.wanted import CHUNK

MB = 1_000_000
BIG = sized(40 * CHUNK + 17)
MANY = sized(*[30_000] * 400)

MISCHIEF = {
    "dead": Mirror(dead=True),
    "deaf": Mirror(deaf=True),
    "slow": Mirror(rate=5e3),
    "trickling": Mirror(rate=40.0),
    "lying": Mirror(lies=True),
    "truncating": Mirror(cut=0.4),
    "breaking": Mirror(breaks=300_000),
    "breaking at once": Mirror(breaks=0),
    "flapping": Mirror(flaps=0.7),
    "dying": Mirror(dies=1.0),
    "without ranges": Mirror(ranges=False),
    "failing": Mirror(errors=frozenset(range(500))),
    "empty": Mirror(missing=frozenset(range(500))),
}


@pytest.mark.parametrize("files", [BIG, MANY], ids=["one large file", "many small files"])
@pytest.mark.parametrize("other", MISCHIEF)
def test_one_honest_mirror_is_enough(other: str, files: list) -> None:
    total = sum(f.size for f in files)
    alone = Simulation(files, [Mirror()]).run()
    for mirrors in ([MISCHIEF[other], Mirror()], [Mirror(), MISCHIEF[other]]):
        done = Simulation(files, mirrors).run()
        assert not done.given_up
        assert len(done.proved) == sum(f.units for f in files)
        assert done.now < alone.now * 1.1 + 1.5
        assert done.surplus() <= 0.03 * total + 8 * CHUNK


def test_a_faster_mirror_gets_more() -> None:
    done = Simulation(sized(*[3 * CHUNK] * 40), [Mirror(rate=8e6), Mirror(rate=2e6)]).run()
    assert 3 < done.bytes[0] / done.bytes[1] < 5


@pytest.mark.parametrize("files", [BIG, MANY, sized(*[300_000] * 64)], ids=["large", "small", "middling"])
@pytest.mark.parametrize("rate", [10e6, 5e6, 1e6])
def test_two_mirrors_are_as_fast_as_their_sum(files: list, rate: float) -> None:
    mirrors = [Mirror(rate=10e6, latency=0.001), Mirror(rate=rate, latency=0.001)]
    one, two = (Simulation(files, [m]).run().now for m in mirrors)
    both = Simulation(files, mirrors).run().now
    assert both < 1 / (1 / one + 1 / two) / 0.9 + 0.1


def test_a_mirror_that_dies_costs_no_more_than_to_be_without_it() -> None:
    alone = Simulation(BIG, [Mirror()]).run().now
    done = Simulation(BIG, [Mirror(dies=alone / 4), Mirror()]).run()
    assert not done.given_up
    assert done.now < alone
    assert done.surplus() == 0, "what had arrived was gone on with from the byte where it stood"


def test_a_stalled_piece_is_taken_over_by_an_idle_connection_at_once() -> None:
    done = Simulation(sized(100_000), [Mirror(deaf=True), Mirror()]).run()
    assert done.now < 1.0
    assert [mirror for _, mirror, _ in done.starts] == [0, 1]


def test_what_is_taken_over_begins_at_the_byte_where_it_stands() -> None:
    done = Simulation(sized(6 * BLOCK), [Mirror(rate=BLOCK / 2, connections=1), Mirror(connections=1)]).run()
    assert done.surplus() == 0
    assert done.starts[0][1] == 0
    assert done.starts[1][1] == 1
    assert done.starts[1][2].have > 0


def test_the_end_of_a_slow_piece_is_shared() -> None:
    """Of one large piece on a mirror half as fast, the idle one takes the larger part."""
    files = sized(8 * CHUNK)
    done = Simulation(files, [Mirror(rate=1e6, connections=1), Mirror(rate=2e6, connections=1)]).run()
    assert done.now < 8 * CHUNK / 3e6 * 1.25
    assert done.surplus() == 0


@pytest.mark.parametrize(
    ("mirrors", "seconds"),
    [
        ([Mirror(dead=True), Mirror(dead=True)], 2),
        ([Mirror(deaf=True)], 12),
        ([Mirror(missing=frozenset({0})), Mirror(dead=True)], 2),
        ([Mirror(errors=frozenset({0}))], 2),
        ([Mirror(lies=True)], 2),
        ([Mirror(cut=0.5)], 2),
        ([Mirror(breaks=0)], 2),
        ([], 0.1),
    ],
    ids=["dead", "deaf", "missing and dead", "failing", "lying", "truncating", "breaking", "none"],
)
def test_when_nobody_gives_it_that_is_said_soon(mirrors: list[Mirror], seconds: float) -> None:
    done = Simulation(sized(50_000), mirrors).run()
    assert list(done.given_up) == [0]
    assert done.now < seconds
    assert len(done.given_up[0]) == len(mirrors)
    assert all(done.given_up[0])


def test_a_file_that_nobody_has_does_not_keep_the_others() -> None:
    done = Simulation(sized(*[50_000] * 30), [Mirror(missing=frozenset({7})), Mirror(missing=frozenset({7, 8}))]).run()
    assert set(done.given_up) == {7}
    assert len(done.proved) == 29
    assert done.given_up[7] == ("missing", "missing")
    assert not done.rests, "a file that is not there says nothing about the mirror"


def test_a_mirror_that_returns_is_used_again() -> None:
    files = sized(*[2 * CHUNK] * 100)
    done = Simulation(files, [Mirror(flaps=2.0), Mirror(rate=1e6)]).run()
    assert not done.given_up
    assert any(when > 4 and mirror == 0 for when, mirror, _ in done.starts)


def test_a_liar_is_banned_and_an_honest_mirror_is_not() -> None:
    done = Simulation(sized(*[CHUNK // 2] * 60), [Mirror(lies=True, connections=3), Mirror(connections=3)]).run()
    assert done.banned == {0}
    assert not done.given_up
    assert done.swarm.mirrors[0].lies <= 5
    assert done.swarm.mirrors[1].lies == 0


def test_a_unit_from_two_mirrors_that_is_wrong_is_fetched_again_from_one() -> None:
    """The liar is cut off in the middle of its unit; the honest one must not be blamed for what comes of it."""
    done = Simulation(sized(10 * BLOCK), [Mirror(lies=True, rate=BLOCK, connections=1), Mirror(rate=2e6, connections=1)]).run()
    assert not done.given_up
    assert done.swarm.mirrors[1].lies == 0
    assert done.surplus() <= 10 * BLOCK


def test_rests_double_and_one_failure_of_all_connections_counts_once() -> None:
    swarm = Swarm(sized(*[1000] * 9), [()] * 9, [3], patience=Patience(tries=100))
    rests, now = [], 0.0
    for _ in range(5):
        for start in [a for a in swarm.on(Tick(), now) if isinstance(a, Start)]:
            swarm.on(Failed(start.connection, Kind.UNREACHABLE, "refused"), now + 0.01)
        rests.append(swarm.mirrors[0].rests_until - now - 0.01)
        now = swarm.mirrors[0].rests_until
    assert rests == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2])


def test_too_many_connections_rest_alone() -> None:
    """A server that takes two connections and refuses the third goes on with two."""
    swarm = Swarm(sized(*[50_000] * 9), [()] * 9, [3])
    starts = [a for a in swarm.on(Tick(), 0.0) if isinstance(a, Start)]
    swarm.on(Arrived(starts[0].connection, 100), 0.1)
    swarm.on(Failed(starts[2].connection, Kind.BUSY, "too many"), 0.2)
    assert swarm.mirrors[0].in_a_row == 0
    assert swarm.mirrors[0].rests_until == 0
    assert not any(isinstance(a, Start) for a in swarm.on(Tick(), 0.3))
    assert any(isinstance(a, Start) for a in swarm.on(Tick(), 5.0)), "and is tried again later"


def test_what_somebody_else_fetched_is_not_fetched() -> None:
    swarm = Swarm(sized(3 * CHUNK), [{0, 2}], [1])
    [start] = swarm.on(Tick(), 0.0)
    assert (start.first, start.last) == (1, 2)  # type: ignore[union-attr]
    assert swarm.on(Had(0), 0.1) == []
    assert swarm.done


def test_two_that_begin_at_both_ends() -> None:
    files = sized(*[1000] * 10, 40 * CHUNK)
    [one] = [a for a in Swarm(files, [()] * 11, [1]).on(Tick(), 0.0) if isinstance(a, Start)]
    [two] = [a for a in Swarm(files, [()] * 11, [1], backwards=True).on(Tick(), 0.0) if isinstance(a, Start)]
    assert (one.file, two.file) == (0, 10)
    assert two.first == 20


def test_a_connection_goes_on_behind_its_last_piece() -> None:
    """FTP pays for every place at which it begins anew."""
    done = Simulation(sized(64 * CHUNK), [Mirror(connections=1, latency=0), Mirror(connections=1, latency=0)]).run()
    for mirror in (0, 1):
        pieces = [start for _, m, start in done.starts if m == mirror]
        jumps = sum(a.last != b.first for a, b in itertools.pairwise(pieces))
        assert len(pieces) >= 4
        assert jumps <= 2


@given(had=st.sets(st.integers(0, 30)), units=st.integers(31, 40))
@settings(derandomize=True, max_examples=50, deadline=None)
def test_runs_cover_what_is_not_there(had: set[int], units: int) -> None:
    runs = runs_without(units, had)
    assert [u for first, last in runs for u in range(first, last)] == [u for u in range(units) if u not in had]
    assert all(a[1] < b[0] for a, b in itertools.pairwise(runs))


def test_speed_is_an_average_that_forgets() -> None:
    meter = Meter()
    meter.begin(0.0)
    for i in range(1, 21):
        meter.add(100, i * 0.1)
    assert meter.speed == pytest.approx(1000, rel=0.2)
    rate = meter.rate(12.0)
    assert rate is not None and rate < 10, "silence counts"


def test_few_lies_among_much_truth_are_forgiven() -> None:
    health = Health(Patience())
    health.proved = 1000
    assert not any(health.lied() for _ in range(20))
    assert health.lied()


_mirrors = st.builds(
    Mirror,
    rate=st.sampled_from([40.0, 1e4, 1e6, 2e7]),
    latency=st.sampled_from([0.0, 0.01, 0.3]),
    connections=st.integers(1, 3),
    dead=st.sampled_from([False, False, True]),
    deaf=st.sampled_from([False, False, True]),
    lies=st.sampled_from([False, False, True]),
    ranges=st.sampled_from([True, True, False]),
    missing=st.frozensets(st.integers(0, 9), max_size=5),
    errors=st.frozensets(st.integers(0, 9), max_size=5),
    cut=st.sampled_from([1.0, 1.0, 0.5]),
    breaks=st.sampled_from([None, None, 0, 200_000, 3 * CHUNK]),
    dies=st.sampled_from([float("inf"), 0.5, 3.0]),
    flaps=st.sampled_from([None, None, 0.3, 2.0]),
)
_honest = st.builds(
    Mirror,
    rate=st.sampled_from([1e5, 1e6, 2e7]),
    latency=st.sampled_from([0.0, 0.01, 0.3]),
    connections=st.integers(1, 3),
    ranges=st.sampled_from([True, True, False]),
)


@given(
    sizes=st.lists(st.sampled_from([1, 5_000, 200_000, CHUNK, CHUNK + 1, 3 * CHUNK, 20 * CHUNK]), min_size=1, max_size=10),
    others=st.lists(_mirrors, max_size=3),
    honest=_honest,
    place=st.integers(0, 3),
)
@settings(derandomize=True, max_examples=150, deadline=None)
def test_everything_arrives_if_one_honest_mirror_has_it(sizes: list[int], others: list[Mirror], honest: Mirror, place: int) -> None:
    files = sized(*sizes)
    mirrors = [*others[:place], honest, *others[place:]]
    done = Simulation(files, mirrors).run(limit=25 + 40 * sum(sizes) / honest.rate)
    assert not done.given_up
    assert len(done.proved) == sum(f.units for f in files)
    assert done.swarm.mirrors[min(place, len(others))].lies == 0
    if all(m.ranges for m in mirrors):  # else what lies before must be read, too
        connections = sum(m.connections for m in mirrors)
        assert done.surplus() <= 2 * connections * CHUNK + 0.05 * sum(sizes)
        assert done.now <= 25 + 3 * sum(sizes) / honest.rate + 2 * len(files) * honest.latency
