"""Writing a report: from the folder of an experiment to files, or to an error that helps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from laminar.cli import experiment_report
from laminar.core.errors import LaminarError
from laminar.experiments.files import append_trial, read_trials, write_description
from laminar.experiments.report import write_report
from laminar.store.store import Store
from tests.pure.experiments.made_up_experiments import nasty, one_variant


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store.open(tmp_path / "store", create=True)
    description, trials = one_variant()
    write_description(found, description)
    for one in trials:
        append_trial(found, description.name, one)
    return found


def test_what_is_asked_for_is_written(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "out"
    written = write_report(store, "one", html=out / "r.html", pdf=out / "r.pdf", csv=out / "r", png=out / "r", svg=out / "r")
    names = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    pictures = [f"r/{name}.{kind}" for name in ("accuracy-against-time", "over-fitting") for kind in ("png", "svg")]
    assert names == sorted(["r.html", "r.pdf", "r/curves.csv", "r/summary.csv", "r/trials.csv", *pictures])
    assert sorted(written.files) == sorted(out / name for name in names)
    assert len(written.view.done) == 3


def test_metrics_that_are_no_numbers_can_be_kept_and_read_again(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    description, trials = nasty()
    write_description(store, description)
    for one in trials:
        append_trial(store, description.name, one)
    found = read_trials(store, description.name)
    assert len(found) == len(trials)
    assert found[3].metrics == {}
    assert found[2].curve[-1].test_accuracy is None


def test_a_wrong_name_is_told_the_nearest(store: Store, tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="did you mean 'one'") as caught:
        write_report(store, "onne", html=tmp_path / "r.html")
    assert caught.value.code == "L018"
    assert not (tmp_path / "r.html").exists()


def test_a_folder_in_the_way_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(LaminarError, match="is a folder") as caught:
        write_report(store, "one", html=tmp_path)
    assert caught.value.code == "L008"
    (tmp_path / "taken").write_text("")
    with pytest.raises(LaminarError, match="is a file") as caught:
        write_report(store, "one", csv=tmp_path / "taken")
    assert caught.value.code == "L008"


@pytest.mark.parametrize("path", [".", "/"])
def test_a_path_without_a_name_is_refused(path: str) -> None:
    with pytest.raises(LaminarError, match="is a folder") as caught:
        experiment_report.run("one", html=Path(path), pdf=True)
    assert caught.value.code == "L008"
    assert caught.value.hint.endswith("one.html")


@pytest.mark.parametrize(("library", "asked"), [("matplotlib", "html"), ("PIL", "html"), ("fpdf", "pdf")])
def test_a_missing_library_is_named_with_the_extra(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, asked: str
) -> None:
    gone = {library, "matplotlib"}  # which needs PIL
    for name in [name for name in sys.modules if name.partition(".")[0] in gone or name.startswith("laminar.experiments.report.paper")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(LaminarError) as caught:
        write_report(store, "one", **{asked: tmp_path / "r", "csv": tmp_path / "c"})  # type: ignore[arg-type]
    assert caught.value.code == "L011"
    assert "laminar-train[experiments]" in caught.value.hint
    assert f"{library} is not installed" in caught.value.message or f"not installed: {library}" in caught.value.message
    assert list(tmp_path.glob("[rc]*")) == []  # before anything is written
