"""What the pages Compare, Plan, Experiments, Grid and Kernels answer: for what is there, for what is not, and for what is damaged."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.dashboard.layer_detail import detail
from laminar.dashboard.report_pictures import Drawing
from laminar.dashboard.server import from_home
from laminar.experiments.files import folder_of
from laminar.experiments.pictures.palette import SERIES_DARK, SERIES_LIGHT, TOKENS
from laminar.plan.kept_plans import answer, keep, place
from laminar.store.store import Store
from laminar.testing.remote_contract import sample_layer
from laminar.train.splitting import Pipeline
from tests.pure.dashboard import made_experiment
from tests.pure.dashboard.visitor import Visitor, serving
from tests.pure.plan.test_price import priced

STACK = """\
[stack]
name = "digits"

[data.all]
source = "digits"

[[layer]]
name = "head"
model = "laminar:mlp"
data = "all"
train = { epochs = 1, lr = 0.1 }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / "laminar.toml").write_text(STACK)
    store = Store.open(root / ".laminar")
    for seed in (1, 2):
        sample_layer(store, seed=seed)
    told = {"machine": "desk", "conclusion": "so it is", "to_target": "a guess"}
    keep(store, answer("digits", "head", "plan", [priced(Pipeline(stages=2, microbatches=4))], **told))
    keep(store, answer("digits", "gone", "plan", [priced(Pipeline(stages=2, microbatches=4))], **told))
    place(store, "digits", "gone").write_bytes(b"{}")
    made_experiment.make(store)
    made_experiment.make(store, "broken")
    (folder_of(store, "broken") / "trials.jsonl").write_bytes(b"{}\nnothing\n")
    return root


@pytest.fixture(scope="module")
def visitor(folder: Path) -> Iterator[Visitor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMINAR_LEDGER", str(folder / "no-ledger.sqlite"))
        with serving(folder) as dashboard:
            yield Visitor(dashboard).enter()


def test_layers_side_by_side(visitor: Visitor) -> None:
    offered = visitor.get("/api/compare/choices").json()
    assert [one["what"] for one in offered["choices"]] == ["now", "before"] and offered["data"] == ["all"]
    both = {"layer": [one["ref"] for one in offered["choices"]]}
    found = visitor.get("/api/compare", both).json()
    assert len(found["items"]) == 2 and found["modules"] == 1 and [one["epochs"] for one in found["curves"]] == [[], []]
    tensors = visitor.get("/api/compare/tensors", both).json()
    assert {one["name"] for one in tensors["tensors"]} == {"w", "b"} and np.isfinite(tensors["modules"][0]["cosine"])
    for query in ({}, {"layer": "head"}, {"layer": ["head", "nobody"]}):
        answer = visitor.get("/api/compare", query)
        assert answer.status in (404, 422) and answer.json()["error"]["code"] in ("L006", "L008")
    assert visitor.get("/api/compare/judged", both).json()["error"]["code"] == "L008", "no data is named"


def test_a_damaged_version_of_before_does_not_hide_the_layer(tmp_path: Path) -> None:
    store = Store.open(tmp_path / ".laminar")
    old, new = sample_layer(store, seed=1), sample_layer(store, seed=2)
    store.layout.layer(old.id).write_bytes(b"{}")
    told = detail(None, Store.open(tmp_path / ".laminar"), "digits/head", None)
    assert told["layer"]["id"] == new.id
    assert [(entry["id"], entry["here"]) for entry in told["log"]] == [(new.id, True), (old.id, False)]


def test_plans_kept_missing_and_damaged(visitor: Visitor) -> None:
    layers = {one["layer"]: one for one in visitor.get("/api/plan").json()["layers"]}
    assert layers["head"]["in_stack"] and layers["head"]["best"].startswith("pipeline:") and layers["gone"]["error"]
    assert visitor.get("/api/plan/answer", {"layer": "head"}).json()["answer"]["plans"][0]["timeline"]
    assert visitor.get("/api/plan/answer", {"layer": "nobody"}).json() == {"answer": None, "auto": []}
    assert visitor.get("/api/plan/answer", {"layer": "gone"}).json()["error"]["code"] == "L303"
    past = visitor.get("/api/plan/ledger").json()
    assert past["entries"] == [] and not Path(past["path"]).exists(), "looking made no ledger"


def test_a_damaged_ledger_is_said_and_left_as_it_is(visitor: Visitor, folder: Path) -> None:
    path = folder / "no-ledger.sqlite"
    path.write_bytes(b"this is no database, though it is long enough to be taken for one" * 40)
    before = path.read_bytes()
    try:
        assert visitor.get("/api/plan/ledger").json()["error"]["code"] == "L303"
        assert path.read_bytes() == before and sorted(folder.glob("no-ledger*")) == [path]
    finally:
        path.unlink()


def test_an_experiment_in_figures_and_curves_and_one_that_is_damaged(visitor: Visitor) -> None:
    listed = {one["name"]: one for one in visitor.get("/api/experiments").json()["experiments"]}
    assert (listed["width"]["done"], listed["width"]["planned"], listed["width"]["failed"]) == (20, 20, 1) and listed["broken"]["error"]
    found = visitor.get("/api/experiments/one", {"name": "width"}).json()
    rows = {row["label"]: row for row in found["summary"]["rows"]}
    assert rows["64 neurons"]["benchmark"] and rows["256 neurons"]["figures"]["seconds"]["verdict"] == "more"
    assert {curve["label"]: curve["trials"] for curve in found["curves"]} == {**dict.fromkeys(rows, 5), "256 neurons": 4}
    assert all(curve["epochs"] == [1, 2, 3, 4, 5, 6] for curve in found["curves"]) and "test_loss" not in found["curves"][0]["figures"]
    assert visitor.get("/api/experiments/one", {"name": "broken"}).json()["error"]["code"] == "L303"
    for name in ("nobody", "../../layers", ""):
        assert visitor.get("/api/experiments/one", {"name": name}).status in (404, 422)


def test_the_pictures_of_a_report_are_announced_at_once_and_drawn_when_asked_for(visitor: Visitor, folder: Path) -> None:
    announced = visitor.get("/api/experiments/one", {"name": "width"}).json()["pictures"]
    assert {"along-neurons", "accuracy-against-time"} <= {one["name"] for one in announced}
    drawn = visitor.get("/api/experiments/pictures", {"name": "width"}).json()["pictures"]
    assert [one["name"] for one in drawn] == [one["name"] for one in announced]
    for one, told in zip(drawn, announced, strict=True):
        across, high = (72 * inches for inches in told["wide"])
        assert f'viewBox="0 0 {across:g} {high:g}"' in one["svg"], "the room that was kept for it"
        assert one["title"] == told["title"] and "var(--p-" in one["svg"] and one["hints"]
    for name in ("nobody", "../../layers", ""):
        assert visitor.get("/api/experiments/pictures", {"name": name}).status in (404, 422)
    assert visitor.get("/api/experiments/pictures", {"name": "broken"}).json()["error"]["code"] == "L303"


def test_pictures_are_drawn_once_until_a_trial_comes() -> None:
    asked: list[dict[str, object]] = []

    def run(module: str, request: dict[str, object], *, seconds: float) -> dict[str, object]:
        asked.append(request)
        if request["name"] == "slow":
            raise TimeoutError(f"it took more than {seconds:g} s")
        return {"error": {"code": "L011", "message": module, "hint": "pip"}} if request["name"] == "bare" else {"pictures": [len(asked)]}

    drawing = Drawing(run)
    assert [drawing.pictures("here", "a", seen, narrow=False) for seen in (1, 1, 2, 2)] == [[1], [1], [2], [2]]
    assert drawing.pictures("here", "a", 2, narrow=True) == [3] and drawing.pictures("here", "a", 2, narrow=False) == [2]
    for name, code in (("slow", "L609"), ("bare", "L011")):
        with pytest.raises(LaminarError) as caught:
            drawing.pictures("here", name, 1, narrow=False)
        assert caught.value.code == code


def test_pictures_have_the_colours_of_reports() -> None:
    css = (files("laminar.dashboard") / "static" / "pages.css").read_text()
    for colours, times in ((SERIES_LIGHT, 1), (SERIES_DARK, 2)):
        assert css.count(" ".join(f"--p-{i}: {colour};" for i, colour in enumerate(colours))) == times
    assert all(f"--{name}: " in css for name in TOKENS)


def test_runs_that_are_trials_are_known_as_such(visitor: Visitor, folder: Path) -> None:
    trials = folder_of(Store.open(folder / ".laminar"), "width") / "trials.jsonl"
    before = trials.read_bytes()
    assert visitor.get("/api/runs").json()["trials"] == {}
    trials.write_bytes(before + b'{"variant": "v32", "run": "0123"}\nnothing\n{"run": 3}\n{"run": "torn"')
    assert visitor.get("/api/runs").json()["trials"] == {"0123": "width"}
    trials.write_bytes(before)


def test_what_nobody_would_write_is_answered_all_the_same(visitor: Visitor, folder: Path) -> None:
    run = folder / ".laminar" / "runs" / "odd"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"layer": "odd", "spec": {"lr": 1' + 40 * "0" + ', "deep": {"x": [1e999]}}}')
    (run / "events.jsonl").write_text('{"event": "note", "why": 1' + 40 * "0" + ', "t": 1.0}\n')
    assert visitor.get("/api/compare", {"layer": ["odd", "head"]}).status == 200
    assert visitor.get("/api/runs/curves", {"run": "odd"}).status == 200
    assert visitor.get("/api/runs").status == 200
    shutil.rmtree(run)


def test_a_trial_that_ends_is_seen_at_once(visitor: Visitor, folder: Path) -> None:
    store = Store.open(folder / ".laminar")
    made_experiment.make(store, "growing", done=2)
    first = visitor.get("/api/experiments/one", {"name": "growing"}).json()
    made_experiment.make(store, "growing", done=3)
    second = visitor.get("/api/experiments/one", {"name": "growing"}).json()
    assert first["summary"]["done"] == 8 and second["summary"]["done"] == 12 and second["newest"] > first["newest"]


def test_no_grid_is_said_with_the_command_and_its_script_is_given(visitor: Visitor) -> None:
    answer = visitor.get("/api/grid")
    error = answer.json()["error"]
    assert error["code"] == "L501" and error["hint"] == "laminar grid serve, or laminar ui --grid grid://HOST:PORT"
    assert answer.status == 200, "there being none is no failure: the console of a page that asks again and again stays empty"
    assert "export function nodes" in visitor.get("/grid/view.js").text
    assert visitor.get("/grid/view.css").headers["content-type"].startswith("text/css")


class _AnyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<!doctype html>")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_grid_that_was_named_and_is_none_is_a_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_GRID_TOKEN", "x")
    with HTTPServer(("127.0.0.1", 0), _AnyPage) as site:
        thread = threading.Thread(target=site.handle_request)
        thread.start()
        with serving(folder, grid=f"http://127.0.0.1:{site.server_port}") as dashboard:
            answer = Visitor(dashboard).enter().get("/api/grid")
        thread.join(20)
    assert answer.status == 422 and answer.json()["error"]["code"] == "L501" and "is no grid" in answer.json()["error"]["message"]
    assert answer.json()["error"]["hint"] == "laminar ui --grid grid://HOST:8787"


def test_kernels_are_those_of_the_project_only(visitor: Visitor, folder: Path) -> None:
    (folder / "leaky.c").write_text("void kernel(int i, int n, const float x[n], float y[n]) { y[i] = x[i]; }\n")
    assert [one["path"] for one in visitor.get("/api/kernels").json()["kernels"]] == ["leaky.c"]
    found = visitor.get("/api/kernels/one", {"file": "leaky.c", "instances": 5}).json()
    assert found["run"]["instances"] == 5 and found["run"]["findings"] == []
    for query in ({"file": "../leaky.c"}, {"file": "laminar.toml"}, {}):
        assert visitor.get("/api/kernels/one", query).status == 404
    for query in ({"instances": "many"}, {"instances": 2.5}, {"v.n": "x"}):
        assert visitor.get("/api/kernels/one", {"file": "leaky.c", **query}).json()["error"]["code"] == "L008"


@pytest.mark.parametrize(("folder", "told"), [("me/lab/digits", "~/lab/digits"), ("me", "~"), ("meadow", "{}/meadow")])
def test_a_folder_is_told_as_people_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, told: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert from_home(tmp_path / folder) == told.format(tmp_path)
