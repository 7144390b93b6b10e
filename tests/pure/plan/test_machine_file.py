"""Machine files: what they say, and what is said of mistakes in them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.core.errors import LaminarError
from laminar.plan.desktops import KINDS
from laminar.plan.facts import MachineFacts
from laminar.plan.machine import Link, Machine, Node, Stragglers, this_machine
from laminar.plan.machine_words import LEAST_RATE, LONGEST, MOST_RATE, bytes_a_second, seconds
from laminar.plan.read_machine import GridTable, LinkTable, MachineTable, NodeTable, StragglersTable, parse_machine, read_machine

LAB = """\
name = "lab"

[[node]]
name = "pc"
count = 3
cores = 4
memory = "16GB"

[[node]]
name = "old"
cores = 2
memory = "4GiB"
speed = 0.5

[link]
bandwidth = "1Gbit/s"
latency = "0.2ms"

[stragglers]
spread = 0.2
slow = { share = 0.1, factor = 4 }
"""


def refused(text: str) -> LaminarError:
    with pytest.raises(LaminarError) as caught:
        parse_machine(text, "lab.toml")
    assert caught.value.code == "L013"
    assert caught.value.hint
    assert caught.value.exit_code == 2
    return caught.value


def test_a_whole_file() -> None:
    assert parse_machine(LAB, "lab.toml") == Machine(
        (
            Node("pc-1", 4, 16 * 10**9),
            Node("pc-2", 4, 16 * 10**9),
            Node("pc-3", 4, 16 * 10**9),
            Node("old", 2, 4 << 30, 0.5),
        ),
        Link(125e6, 0.2e-3),
        Stragglers(0.2, 0.1, 4.0),
        "lab",
    )


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(LAB, encoding="utf-8-sig")
    assert read_machine(tmp_path / "lab.toml") == parse_machine(LAB, "lab.toml")


def test_one_node_needs_no_link_and_no_names() -> None:
    found = parse_machine('[[node]]\ncores = 2\nmemory = "8GB"\n', "shed.toml")
    assert found.one_node
    assert (found.name, found.nodes[0].name, found.cores) == ("shed", "node", 2)
    assert found.stragglers == Stragglers()


def test_tables_may_be_written_in_a_line() -> None:
    text = 'node = [{ count = 2, cores = 8, memory = 16000000000 }]\nlink = { bandwidth = "125MB/s", latency = "200us" }\n'
    found = parse_machine(text, "lab.toml")
    assert found.cores == 16
    assert found.link == Link(125e6, pytest.approx(0.2e-3))


@pytest.mark.parametrize(
    ("written", "instead", "says"),
    [
        ("cores = 4", "cors = 4", ["lab.toml:6", "'cors' in [[node]]", "did you mean 'cores'?"]),
        ("cores = 4", "", ["lab.toml:3", "[[node]] has no 'cores'"]),
        ("cores = 4", 'cores = "four"', ["lab.toml:6", "node.cores", "a whole number", 'found "four"']),
        ("cores = 4", "cores = true", ["lab.toml:6", "a whole number", "found true"]),
        ("cores = 4", "cores = 0", ["lab.toml:6", "cores is 0", "from 1 to 4096"]),
        ("count = 3", "count = 5000", ["lab.toml:5", "count is 5000"]),
        ("speed = 0.5", "speed = nan", ["lab.toml:13", "speed is nan"]),
        ("speed = 0.5", "speed = 0", ["lab.toml:13", "speed is 0"]),
        ('memory = "16GB"', 'memory = "16GX"', ["lab.toml:7", 'memory is "16GX"', "no size"]),
        ('memory = "16GB"', "memory = 16", ["lab.toml:7", "16 bytes hold no model"]),
        ('name = "old"', 'name = "pc"', ["lab.toml:10", "a second node is called 'pc'"]),
        ('"1Gbit/s"', '"1Gb/s"', ["lab.toml:16", "bits or bytes"]),
        ('"1Gbit/s"', '"fast"', ["lab.toml:16", "does not begin with a number"]),
        ('"1Gbit/s"', '"0Mbit/s"', ["lab.toml:16", "nothing would ever arrive"]),
        ('"1Gbit/s"', '"1e-300bit/s"', ["lab.toml:16", "less than 1bit/s"]),
        ('"1Gbit/s"', '"1e-999bit/s"', ["lab.toml:16", "nothing would ever arrive"]),
        ('"1Gbit/s"', '"1e300bit/s"', ["lab.toml:16", "more than 1000TB/s"]),
        ('"0.2ms"', '"1e300s"', ["lab.toml:17", "more than an hour"]),
        ('"0.2ms"', '"1e999ms"', ["lab.toml:17", "more than an hour"]),
        ('"1Gbit/s"', "1000", ["lab.toml:16", "link.bandwidth", "expected text"]),
        ('"0.2ms"', '"0.2 minutes"', ["lab.toml:17", "'minutes'", "s, ms, us, ns"]),
        ('"0.2ms"', '"-1ms"', ["lab.toml:17", "latency"]),
        ("share = 0.1", "share = 1.5", ["lab.toml:21", "share is 1.5", "from 0 to 1"]),
        ("factor = 4", "factor = 0.5", ["lab.toml:21", "factor is 0.5"]),
        ("factor = 4", "faktor = 4", ["lab.toml:21", "'faktor' in [stragglers.slow]", "did you mean 'factor'?"]),
        ("spread = 0.2", "spread = inf", ["lab.toml:20", "spread is inf"]),
        ("[stragglers]", "[straglers]", ["lab.toml:19", "'straglers' in the file", "did you mean 'stragglers'?"]),
        ("cores = 4", "cores = = 4", ["lab.toml:6", "not valid TOML"]),
    ],
)
def test_a_mistake_is_named_with_its_line(written: str, instead: str, says: list[str]) -> None:
    assert written in LAB
    message = refused(LAB.replace(written, instead, 1)).message
    for said in says:
        assert said in message


@pytest.mark.parametrize(
    ("text", "where", "fix"),
    [
        ('name = "lab"\n[node]\ncores = 2\nmemory = "8GB"\n', "lab.toml:2: [node]", "[[node]], with two brackets"),
        (LAB.replace("[link]", "[[link]]"), "lab.toml:15: [link] is a list", "[link], with one bracket"),
    ],
)
def test_one_bracket_for_two_and_two_for_one(text: str, where: str, fix: str) -> None:
    error = refused(text)
    assert error.message.startswith(where) and fix in error.hint


def test_several_nodes_need_a_link() -> None:
    message = refused('[[node]]\ncount = 4\ncores = 2\nmemory = "8GB"\n').message
    assert message == "lab.toml:1: 4 nodes and no [link] between them"


@pytest.mark.parametrize("text", ["", 'name = "lab"\n', "node = []\n", "node = 3\n", "node = [3]\n"])
def test_a_file_without_nodes(text: str) -> None:
    assert "lab.toml:1: " in refused(text).message


def test_too_many_nodes_in_all() -> None:
    many = '[[node]]\nname = "a"\ncount = 4000\ncores = 1\nmemory = "8GB"\n'
    assert "lab.toml:8: count makes 8000 nodes" in refused(many + many.replace('"a"', '"b"')).message


def test_a_file_that_is_not_there_shows_how_one_looks(tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="there is no machine file") as caught:
        read_machine(tmp_path / "lab.toml")
    assert caught.value.code == "L013"
    example = caught.value.hint.removeprefix("write one: ").split("; ")[0].replace(" and ", "\n")
    assert parse_machine(example, "lab.toml").cores == 32


def test_a_file_that_is_no_text_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "lab.toml", tmp_path):
        with pytest.raises(LaminarError) as caught:
            read_machine(path)
        assert caught.value.code == "L013"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8bit/s", 1.0),
        ("100Mbit/s", 12.5e6),
        ("1 Gbit/s", 125e6),
        ("10Gbps", 1.25e9),
        ("125MB/s", 125e6),
        ("1.5GiB/s", 1.5 * 2**30),
        ("3kB/s", 3e3),
        ("1bit/s", LEAST_RATE),
        ("1000TB/s", MOST_RATE),
    ],
)
def test_bandwidths(text: str, value: float) -> None:
    assert bytes_a_second(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "1", "1Gbit", "Gbit/s", "1Xbit/s", "1gbit/s", "1mB/s", "1ibit/s", "1e999Gbit/s", "nan"])
def test_what_is_no_bandwidth(text: str) -> None:
    assert isinstance(bytes_a_second(text), str)


def test_durations() -> None:
    assert [seconds(text) for text in ("2s", "0.2ms", "50 us", "50µs", "0ms")] == pytest.approx([2.0, 0.2e-3, 50e-6, 50e-6, 0.0])
    assert seconds("3600s") == LONGEST
    assert all(isinstance(seconds(text), str) for text in ("", "2", "ms", "-1ms", "2h"))


# Machines


def test_workers_fill_a_node_before_the_next_and_begin_again() -> None:
    machine = Machine((Node("a", 2, 10**9), Node("b", 1, 10**9)), Link(1e8, 1e-4))
    assert machine.places(3) == (0, 0, 1)
    assert machine.places(7) == (0, 0, 1, 0, 0, 1, 0)
    assert not machine.one_node


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 40))
def test_no_node_has_a_second_worker_on_a_core_while_another_has_a_free_one(cores: list[int], workers: int) -> None:
    machine = Machine(tuple(Node(str(i), count, 10**9) for i, count in enumerate(cores)))
    places = machine.places(workers)
    assert len(places) == workers
    turns, rest = divmod(workers, sum(cores))
    for node, count in enumerate(cores):
        assert turns * count <= places.count(node) <= (turns + (rest > 0)) * count


def test_the_machine_that_was_measured() -> None:
    machine = this_machine(MachineFacts(cores=2, memory=8 * 10**9, spread=0.1))
    assert machine.one_node
    assert machine.cores == 2
    assert machine.nodes[0].speed == 1.0
    assert 10**9 / machine.link.bandwidth == 0.0
    assert machine.stragglers.spread == 0.1


def test_the_mean_step_of_stragglers() -> None:
    assert Stragglers().mean == 1.0
    assert Stragglers(0.0, 0.1, 4.0).mean == pytest.approx(1.3)
    assert Stragglers(0.2).mean == pytest.approx(math.exp(0.02))


# The reference


PAGE = (Path(__file__).parents[3] / "docs" / "ref-machine-file.md").read_text(encoding="utf-8")


def test_the_example_of_the_reference_can_be_read() -> None:
    example = PAGE.split("```text\n")[1].split("```")[0]
    found = parse_machine(example, "lab.toml")
    assert (len(found.nodes), found.cores, found.nodes[-1].speed) == (5, 34, 0.5)
    assert found.stragglers == Stragglers(0.2, 0.1, 4.0)


def test_the_desktops_of_the_reference_can_be_read() -> None:
    found = parse_machine(PAGE.split("```text\n")[2].split("```")[0], "office.toml")
    assert found.grid is not None and len(found.grid.nodes) == 30 and found.grid.churn == KINDS["desktop"]
    assert (found.grid.server, found.grid.link) == (125e6, Link(6.25e6, 0.015))
    assert len(found.nodes) == 1 and found.one_node, "what is not the grid runs where the command would be run"


@pytest.mark.parametrize(
    ("grid", "says"),
    [
        ('churn = "dektop"', ["office.toml:8", "did you mean 'desktop'?"]),
        ('server = "fast"', ["office.toml:8", "does not begin with a number"]),
        ('server = "0bit/s"', ["office.toml:8", "nothing would ever arrive"]),
        ("loses = 1.0", ["office.toml:8", "loses is 1", "from 0 to 0.9"]),
        ("onn = 3", ["office.toml:8", "'onn' in [grid]", "did you mean 'on'?"]),
    ],
)
def test_a_mistake_about_desktops_is_named_with_its_line(grid: str, says: list[str]) -> None:
    text = f'[[node]]\ncores = 2\nmemory = "4GB"\n[link]\nbandwidth = "1Mbit/s"\nlatency = "1ms"\n[grid]\n{grid}\n'
    with pytest.raises(LaminarError) as caught:
        parse_machine(text, "office.toml")
    assert caught.value.code == "L013" and all(word in str(caught.value) for word in says), str(caught.value)


def test_figures_of_a_grid_replace_those_of_its_kind_and_it_needs_a_link() -> None:
    text = '[[node]]\ncores = 2\nmemory = "4GB"\n[grid]\nchurn = "lab"\non = 9\noff = 0\n'
    with pytest.raises(LaminarError, match=r"no \[link\] between them and the grid's server"):
        parse_machine(text, "office.toml")
    found = parse_machine(text + '[link]\nbandwidth = "1Mbit/s"\nlatency = "1ms"\n', "office.toml").grid
    assert found is not None and (found.churn.on, found.churn.off, found.churn.loses) == (9, 0, KINDS["lab"].loses)


def test_the_reference_has_every_key_with_its_default() -> None:
    tables = {
        "": MachineTable,
        "[[node]]": NodeTable,
        "[link]": LinkTable,
        "[stragglers]": StragglersTable,
        "[grid]": GridTable,
    }
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)) | {"": PAGE.split("\n## ")[0]}
    nested = {"node", "link", "stragglers", "grid"}
    for title, table in tables.items():
        rows = dict(re.findall(r"^\| `(\w+)` \| .*? \| (.*?) \|", sections[title], re.M))
        fields = {one.name: one for one in msgspec.structs.fields(table) if not (title == "" and one.name in nested)}
        assert rows.keys() == fields.keys()
        for name, one in fields.items():
            wanted = "required" if one.required else "-" if one.default is None else f"`{json.dumps(one.default)}`"
            assert rows[name] == wanted
