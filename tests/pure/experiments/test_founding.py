"""docs/founding.md: the five documents by their titles, every claim with what tries it, and the figures that were printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from laminar.experiments.ready import tables
from laminar.experiments.ready.catalogue import READY, parts
from laminar.experiments.ready.form import Ask
from laminar.experiments.ready.judged import OURS
from laminar.experiments.ready.studies import DOCUMENTS

PAGE = (Path(__file__).parents[3] / "docs" / "founding.md").read_text(encoding="utf-8")
ASKS = (Ask(), Ask(quick=True), Ask(cores=8), Ask(data="digits"), Ask(at_hand=True, target=0.9))
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))


def rows(section: str) -> list[list[str]]:
    """Cells of the first table, without its head."""
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


CLAIMS = {row[0]: row for row in rows("The claims")}


def claimed() -> dict[str, set[str]]:
    """Claim -> experiments that have a statement of it, in whatever way they are asked."""
    found: dict[str, set[str]] = {}
    for name, entry in READY.items():
        for ask in ASKS:
            if (entry.at_hand or not ask.at_hand) and ("data" in entry.takes or ask.data is None):
                for ready in parts(name, ask):
                    for statement in ready.statements:
                        found.setdefault(statement.claim, set()).add(name)
    return found


def test_documents_have_the_titles_that_were_printed() -> None:
    assert {int(number): (authors, title) for number, authors, title, _ in rows("The documents")} == DOCUMENTS


def test_every_claim_is_judged_or_says_why_not() -> None:
    assert len(CLAIMS) == 23
    found = claimed()
    assert set(found) <= {*CLAIMS, OURS}
    for id, (_, claim, section, judged, otherwise) in CLAIMS.items():
        assert claim and section, id
        assert set(re.findall(r"`(\w+)`", judged)) == found.get(id, set()), id
        assert found.get(id) or len(otherwise) > 20, id


def test_an_experiment_cites_the_documents_whose_claims_it_judges() -> None:
    for name, entry in READY.items():
        for ask in (Ask(), Ask(quick=True)):
            for ready in parts(name, ask):
                cited = {number for number, (authors, title) in DOCUMENTS.items() if authors in ready.study and title in ready.study}
                assert cited and ready.study, (name, entry)
                assert {int(one.claim[0]) for one in ready.statements if one.claim != OURS} <= cited, name
    assert any(DOCUMENTS[3][0] in ready.study for name in READY for ready in parts(name, Ask()))


@pytest.mark.parametrize("name", READY)
def test_the_first_statement_is_about_the_main_question(name: str) -> None:
    """The catalogue names it, the page of ready experiments shows it, and it asks the same whole and quick."""
    page = (Path(__file__).parents[3] / "docs" / "ref-ready-experiments.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| `{name}` \| {re.escape(READY[name].main)} \|", page, re.M)
    (quick,) = parts(name, Ask(quick=True))
    asked = [(one.claim, one.rule, one.arguments["measure"]) for ready in parts(name, Ask()) for one in ready.statements[:1]]
    if name != "sequential":  # a quick one has nothing to judge
        first = quick.statements[0]
        assert (first.claim, first.rule, first.arguments["measure"]) in asked


def numbers(text: str) -> list[float]:
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?:\.\d+)?", text) if one.strip(",")]


def test_tables_are_those_that_were_printed() -> None:
    studied = (tables.CORES, tables.NEURONS, tables.DEPTH, tables.EPOCHS)
    printed = {row[0]: numbers(" ".join(row[1:])) for row in rows("Published figures")}
    for label, measure in (("loss", "loss"), ("accuracy", "accuracy"), ("time", "seconds")):
        assert printed[label] == [row[measure] for table in studied for row in list(table.values())[1:]], label
    said = set(numbers(SECTIONS["Published figures"]))
    figures = [value for row in tables.SEQUENTIAL for value in row] + [tables.SEQUENTIAL_TEST[0], *tables.FLOWERS, tables.FLOWERS_TEST]
    figures += [*tables.FLOWERS_EPOCH_SECONDS, *tables.GRID.values(), tables.GRID_FRAGMENTS, tables.GRID_TURNED, tables.GRID_ALL]
    figures += [value for table in (tables.FLOWERS_SINGLE, tables.FLOWERS_DISTRIBUTED) for row in table.values() for value in row.values()]
    assert set(map(float, figures)) <= said


STATES = ("works", "partly", "not there")


def items() -> list[tuple[int, str, str]]:
    """Number, state and last column of each item."""
    rows = re.findall(r"^\| (\d+) [^|]*\|[^|]*\| ([^|]*) \| ([^|\n]*) \|$", SECTIONS["Item by item"], re.MULTILINE)
    return [(int(number), state, shown) for number, state, shown in rows]


def test_every_item_has_a_state_and_what_shows_it() -> None:
    found = items()
    assert [number for number, _, _ in found] == list(range(1, 64))
    assert all(state in STATES and shown for _, state, shown in found)
    works, partly, missing = (sum(state == one for _, state, _ in found) for one in STATES)
    assert f"{works} of 63 items work, {partly} work partly, and {missing} are not there." in PAGE


def test_what_works_names_a_test_or_a_benchmark_that_is_there() -> None:
    root = Path(__file__).parents[3]
    for number, state, shown in items():
        named = re.findall(r"`((?:tests|benchmarks)/[\w/.]+)`", shown)
        assert named or state != "works", f"item {number} names nothing that shows it"
        assert all((root / one).is_file() for one in named), (number, named)
