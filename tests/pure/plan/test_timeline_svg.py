"""Timelines as pictures: well-formed, complete, and of a modest size."""

from __future__ import annotations

import itertools
import typing
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.plan.tasks import Kind, Ran, Task
from laminar.plan.timeline_svg import COLOURS, LONGEST, SEEN, Bar, duration, merged, timeline_svg

SVG = "{http://www.w3.org/2000/svg}"


def ran(begin: float, end: float, *resources: int, kind: Kind = "forward", name: str = "") -> Ran:
    return Ran(Task((0, round(begin * 1e9)), end - begin, resources, kind=kind, name=name), begin, begin, end)


def bars(svg: str) -> list[ET.Element]:
    return [rect for rect in ET.fromstring(svg).iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]


def texts(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_bar_on_every_row_that_a_task_holds() -> None:
    svg = timeline_svg([ran(0.0, 0.5, 0), ran(0.5, 1.0, 0, 1, kind="exchange", name="add up")], {0: "worker 0", 1: "link"}, 1.0, "a step")
    found = bars(svg)
    assert [bar.get("class") for bar in found] == ["forward", "exchange", "exchange"]
    assert found[1].get("x") == found[2].get("x") and found[1].get("y") != found[2].get("y")
    half = float(found[0].get("width") or 0)
    assert half == pytest.approx(float(found[1].get("width") or 0), abs=0.02)
    assert [title.text for title in ET.fromstring(svg).iter(f"{SVG}title") if "add up" in (title.text or "")] == [
        "add up: 500 ms, from 500 ms on"
    ] * 2


def test_texts_are_escaped_and_long_names_cut() -> None:
    odd = "<script>\"&'</script>"
    svg = timeline_svg([ran(0, 1, 0, name=odd)], {0: odd + "x" * 100}, 1.0, odd)
    assert "<script>" not in svg
    assert odd in texts(svg)
    assert max(len(text) for text in texts(svg)) <= LONGEST
    assert ET.fromstring(svg).get("aria-label") == odd


def test_the_legend_has_the_kinds_that_are_there_and_both_pages_their_colours() -> None:
    svg = timeline_svg([ran(0, 1, 0), ran(1, 2, 0, kind="optimizer")], {0: "w"}, 2.0, "t")
    assert {"forward", "optimizer"} <= set(texts(svg))
    assert "backward" not in svg
    assert "prefers-color-scheme:dark" in svg
    for kind in ("forward", "optimizer"):
        assert all(colour in svg for colour in COLOURS[kind])


def test_every_kind_has_a_colour_of_its_own() -> None:
    assert set(COLOURS) == set(typing.get_args(Kind))
    for page in (0, 1):
        assert len({pair[page] for pair in COLOURS.values()}) == len(COLOURS)


def test_rows_are_drawn_in_order_also_without_work_and_unnamed_ones_last() -> None:
    svg = timeline_svg([ran(0, 1, 9)], {3: "idle one", 1: "another"}, 1.0, "t")
    shown = [text for text in texts(svg) if text in ("idle one", "another", "resource 9")]
    assert shown == ["idle one", "another", "resource 9"]


def test_thousands_of_thin_tasks_make_a_small_picture() -> None:
    thin = [ran(i * 1e-6, (i + 1) * 1e-6, 0, kind="inputs" if i % 2 else "weights") for i in range(50_000)]
    svg = timeline_svg(thin, {0: "w"}, 0.05, "t")
    assert len(svg) < 300_000
    assert 500 < len(bars(svg)) < 1500
    assert "tasks, most of them" in svg


def test_nothing_at_all() -> None:
    assert bars(timeline_svg([], {}, 0.0, "nothing")) == []
    assert bars(timeline_svg([ran(0, 0, 0)], {0: "w"}, 0.0, "no time")) == []


@given(st.lists(st.tuples(st.floats(0, 0.5), st.floats(0.01, 2.0)), max_size=30))
def test_merging_loses_no_task_and_moves_no_wide_bar(parts: list[tuple[float, float]]) -> None:
    given_, now = list[Bar](), 0.0
    for gap, length in parts:
        given_.append(Bar("forward", "", now + gap, now + gap + length))
        now += gap + length
    found = list(merged(given_, 0.2))
    assert sum(bar.tasks for bar in found) == len(given_)
    assert all(bar in found for bar in given_ if bar.end - bar.begin >= 0.2)
    assert all(a.end <= b.begin + 1e-12 for a, b in itertools.pairwise(found))
    assert all(bar.tasks == 1 or bar.end - bar.begin <= SEEN * 0.2 + 1e-9 for bar in found)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0"), (80e-6, "80 µs"), (1e-3, "1 ms"), (0.0125, "12.5 ms"), (0.9999, "1 s"), (1.25, "1.25 s"), (4000, "4,000 s")],
)
def test_durations_as_people_read_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
