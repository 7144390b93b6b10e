"""Paper, and every number as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re

import msgspec
import pytest

from laminar.experiments.report.compose import compose
from laminar.experiments.report.document import Code, Paragraph, Table
from laminar.experiments.report.numbers import plain, tables
from laminar.experiments.report.pdf import to_pdf
from laminar.experiments.view import View, view
from tests.pure.experiments import made_up_experiments


def viewed(kind: str) -> View:
    return view(*getattr(made_up_experiments, kind)())


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize(("kind", "least"), [("cores", 4), ("nasty", 3), ("empty", 1), ("only_failed", 1), ("one_variant", 1)])
def test_a_report_on_paper(kind: str, least: int, caplog: pytest.LogCaptureFixture) -> None:
    found = to_pdf(compose(viewed(kind)))
    assert found.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", found)) >= least
    assert caplog.text == ""


def test_tables_have_every_number_once() -> None:
    shown = viewed("cores")
    found = {name: rows(text) for name, text in tables(shown).items()}
    assert set(found) == {"trials.csv", "summary.csv", "curves.csv", "series.csv"}
    assert len(found["trials.csv"]) == len(shown.trials)
    assert len(found["curves.csv"]) == sum(len(one.curve) for one in shown.trials)
    assert len(found["summary.csv"]) == 4 * 3
    assert len(found["series.csv"]) == 5 * len([one for one in shown.trials if one.series])
    failed = [row for row in found["trials.csv"] if row["outcome"] == "failed"]
    assert [(row["error_code"], row["counted"], row["workers"]) for row in failed] == [("L602", "false", "4")]
    assert sum(row["counted"] == "true" for row in found["trials.csv"]) == len(shown.done)
    (time,) = [row for row in found["summary.csv"] if (row["label"], row["measure"]) == ("2 workers", "seconds")]
    assert float(time["percent"]) == pytest.approx(100 * float(time["median"]) / 9.49, rel=0.01)
    assert (time["published"], time["verdict"], time["unit"]) == ("110.3", "less", "s")


def test_a_table_without_rows_has_its_head() -> None:
    found = tables(viewed("empty"))
    assert set(found) == {"trials.csv", "summary.csv", "curves.csv"}
    assert found["trials.csv"].startswith("variant,label,workers,repeat")
    assert rows(found["curves.csv"]) == []


def test_tables_besides_are_files_and_part_of_the_paper() -> None:
    shown = viewed("batches")
    found = rows(tables(shown)["critical-batch.csv"])
    assert [(row["line"], row["batches"]) for row in found] == [("sgd", "8"), ("lamb", "9")]
    assert float(found[0]["B_crit"]) == pytest.approx(900, rel=0.05)
    sections = {section.title: section for section in compose(shown).sections}
    (table,) = sections["More tables"].blocks
    assert isinstance(table, Table)
    assert [column.name for column in table.columns] == ["line", "batches", "S_min", "B_crit", "rms error of ln steps", "found"]
    assert plain(shown)["summary"]["tables"][0]["rows"][1]["line"] == "lamb"


def test_trials_of_variants_that_are_gone_are_listed_as_such() -> None:
    description, trials = made_up_experiments.cores()
    fewer = view(msgspec.structs.replace(description, variants=description.variants[:2]), trials)
    found = rows(tables(fewer)["trials.csv"])
    assert len(found) == len(trials)  # every number
    assert sum(row["counted"] == "true" for row in found) == len(fewer.done)
    texts = [
        block.text
        for section in compose(fewer).sections
        if section.title == "Trials"
        for block in section.blocks[:1]
        if isinstance(block, Paragraph)
    ]
    assert "of variants that the sweep no longer has." in texts[0]


@pytest.mark.parametrize("command", ["", "laminar experiment cores --quick --data digits"])
def test_how_to_run_it_again_is_said_in_full(command: str) -> None:
    description, trials = made_up_experiments.one_variant()
    document = compose(view(msgspec.structs.replace(description, command=command), trials))
    (code,) = [block for block in document.sections[-1].blocks if isinstance(block, Code)]
    assert code.text.splitlines()[0] == (command or "laminar experiment show one")
    assert code.text.splitlines()[-1] == "laminar experiment report one --html report.html --pdf --csv"


def test_text_in_tables_comes_back_as_it_was() -> None:
    found = rows(tables(viewed("nasty"))["trials.csv"])
    assert found[0]["label"] == viewed("nasty").variants[0].label
    assert found[-2]["error_message"] == made_up_experiments.NASTY


def test_json_has_null_where_there_is_no_number() -> None:
    text = json.dumps(plain(viewed("nasty")), allow_nan=False)
    assert json.loads(text)["trials"][3]["metrics"] == {"accuracy": None, "loss": None}
    assert set(json.loads(text)) == {"description", "summary", "trials"}


def test_a_target_that_is_measured_in_steps_alone_is_reached_by_those_who_reach_it() -> None:
    description, trials = made_up_experiments.batches()
    steps = msgspec.structs.replace(description, measures=("steps_to_target",))
    assert [note for note in view(steps, trials).summary.notes if "the target" in note] == [
        "sgd, batch 8,192: the target of 0.85 was reached by 0 of 3 trials"
    ]
