"""docs/ref-json.md: the shape it gives for each verb is what the verb prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from docs_console import Session
from PIL import Image

from laminar.cli.verbs import VERBS
from laminar.experiments.ready.catalogue import READY
from tests.e2e.json_shapes import SHAPES, differences

LEAKY = """void kernel(int i, int n, float slope, const float x[n], float y[n]) {
    float v = x[i];
    if (v < 0.0f) v = slope * v;
    y[i] = v;
}
"""

SWEEP = """name = "rates"
layer = "head"
repeats = 1
timed = false
[axes]
lr = [0.02, 0.01]
[[statement]]
text = "a higher rate learns more"
rule = "more_than"
arguments = { variant = { lr = 0.02 }, than = { lr = 0.01 }, measure = "accuracy" }
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """The small stack built twice, with the top layer changed in between, and one layer pushed."""
    from tests.conftest import write_example

    folder = tmp_path_factory.mktemp("json")
    example = write_example(folder / "project")
    found = Session(example.root, folder / "home", inside=True)
    assert found.run("laminar build -q")[0] == 0
    example.edit("laminar.toml", "lr = 0.01, seed = 0, threads = 1 }   # quick", "lr = 0.02, seed = 0, threads = 1 }")
    assert found.run("laminar build -q")[0] == 0
    write_sheets(example.root)
    (example.root / "leaky.c").write_text(LEAKY)
    (example.root / "sweep.toml").write_text(SWEEP)
    np.save(example.root / "sample.npy", np.zeros((1, 8, 8), np.uint8))
    assert found.run("laminar push ../shared head")[0] == 0
    assert found.run("laminar tag head~1 first:v1")[0] == 0
    assert found.run("laminar export head out/head.pt2")[0] == 0
    return found


def write_sheets(root: Path) -> None:
    """A data set of fragments beside the others."""
    rng = np.random.default_rng(0)
    for label in ("a", "b"):
        (root / "images" / label).mkdir(parents=True)
        for i in range(3):
            Image.fromarray(rng.integers(0, 256, (20, 24), dtype=np.uint8)).save(root / "images" / label / f"{i}.png")
    with (root / "laminar.toml").open("a") as file:
        file.write('[data.sheets]\nsource = "folder:images"\nfragment = { size = 8, rotate = 45 }\nsample = { per_class = 5 }\n')


COMMANDS = {
    "build": ["build -q"],
    "status": ["status"],
    "explain": ["explain head"],
    "log": ["log", "log head"],
    "show": ["show head", "show strokes"],
    "diff": ["diff head~1 head", "diff strokes head"],
    "rollback": ["rollback head --write"],
    "redo": ["redo"],
    "tag": ["tag", "tag head second:v1"],
    "evaluate": ["evaluate head --data odd"],
    "predict": ["predict head sample.npy"],
    "plan": ["plan head --even-if-busy -q --budget 200 --top 3", "plan head --even-if-busy -q --budget 200 --explain 1 2"],
    "plan check": ["plan check"],
    "init": ["init another"],
    "report": ["report --out report.html"],
    "experiment sequential": ["experiment sequential --data digits --quick -q"],
    "experiment run": ["experiment run sweep.toml -q", "experiment run sweep.toml -q --repeats 2"],
    "experiment show": ["experiment show rates"],
    "experiment list": ["experiment list"],
    "experiment compare": ["experiment compare rates rates"],
    "experiment report": ["experiment report rates --html rates.html --csv", "experiment report rates"],
    "experiment rm": ["experiment rm rates"],
    "data show": ["data show even", "data show sheets", "data show sheets --no-sheet"],
    "data sample": ["data sample sheets", "data sample sheets --seed 3 --per-class 2"],
    "data index": ["data index images --out index.json"],
    "ui": [],  # as data serve: tests/e2e/test_dashboard_command.py looks at what it prints
    "data serve": [],  # runs until it is ended: tests/multi/data looks at what it prints
    "data pull": ["data pull sheets"],
    "kernel check": ["kernel check leaky.c"],
    "kernel show": ["kernel show leaky.c"],
    "kernel run": ["kernel run leaky.c --param x=ones:4 --param slope=0.1"],
    "kernel graph": ["kernel graph leaky.c"],
    "kernel bench": ["kernel bench leaky.c --instances 100 --rounds 1"],
    "cluster check": ["cluster check --on agents --workers 2"],
    "cluster manifests": ["cluster manifests --workers 2 --image laminar:1 --store-claim store:/store"],
    "push": ["push ../shared head"],
    "pull": ["pull ../shared digits/head"],
    "remote": ["remote add lab ../shared", "remote"],
    "import": ["import out/head.pt2 --name zoo/head"],
    "export": ["export head out/head.safetensors"],
    "verify": ["verify"],
    "gc": ["gc --dry-run", "gc"],
    "doctor": ["doctor"],
}


def test_every_verb_with_json_is_described() -> None:
    with_json = {
        verb for verb, (module, _) in VERBS.items() if "json" in __import__(f"laminar.cli.{module}", fromlist=["run"]).run.__annotations__
    }
    ready = {f"experiment {name}" for name in READY}
    assert ready <= with_json
    with_json -= ready - {"experiment sequential"}  # the shape of all of them
    assert {verb.split(" --")[0] for verb in SHAPES} == with_json
    assert set(COMMANDS) == {verb for verb in with_json if not verb.startswith("grid ")}  # those: tests/multi/grid/test_grid_json.py


@pytest.mark.usefixtures("warm_workers")
@pytest.mark.parametrize("verb", COMMANDS)
def test_the_shape_is_as_described(verb: str, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.train.dtype.probe", lambda _: None)  # of doctor: it starts a torch of its own, twice
    for line in COMMANDS[verb]:
        code, printed = session.run(f"laminar {line} --json")
        assert code == 0, printed
        assert list(differences(json.loads(printed), SHAPES[verb])) == []


@pytest.mark.parametrize(
    "strategy", ['kind = "mesh", mesh = { cols = 2 }, split = { batch = "cols" }', 'kind = "pipeline", batch_norm = "each"']
)
def test_the_shape_of_a_split(session: Session, tmp_path: Path, strategy: str) -> None:
    import shutil

    copy = tmp_path / "project"
    shutil.copytree(session.start, copy)
    stack = copy / "laminar.toml"
    stack.write_text(stack.read_text().replace("threads = 1 }", f"threads = 1, strategy = {{ {strategy} }} }}"))
    code, printed = Session(copy, tmp_path / "home", inside=True).run("laminar show strokes --split --json")
    assert code == 0, printed
    assert list(differences(json.loads(printed), SHAPES["show --split"])) == []


def test_the_shape_of_findings(session: Session, tmp_path: Path) -> None:
    """What verify prints of a damaged store, and status of a layer that is not built."""
    import shutil

    copy = tmp_path / "project"
    shutil.copytree(session.start, copy)
    victim = max((copy / ".laminar" / "objects").glob("*/*"), key=lambda path: path.stat().st_size)
    victim.write_bytes(b"oops")
    damaged = Session(copy, tmp_path / "home", inside=True)
    code, printed = damaged.run("laminar verify --json")
    assert code == 3
    found = json.loads(printed)
    assert found["findings"]
    assert list(differences(found, SHAPES["verify"])) == []
    shutil.rmtree(copy / ".laminar")
    code, printed = damaged.run("laminar status --json")
    assert list(differences(json.loads(printed), SHAPES["status"])) == []
    code, printed = damaged.run("laminar build --dry-run --json")
    shape = {name: part for name, part in SHAPES["status"].items() if name != "features"}
    assert list(differences(json.loads(printed), shape)) == []


def test_the_comparison_can_fail() -> None:
    shape = {"a": "text or null", "b": [{"NAME": "number"}], "c": "true or false"}
    assert list(differences({"a": None, "b": [{"x": 1.5}], "c": True}, shape)) == []
    for wrong in ({"a": 1, "b": [], "c": True}, {"a": "", "b": [{"x": "1"}], "c": True}, {"a": "", "b": [], "c": 1}, {"a": "", "b": []}):
        assert list(differences(wrong, shape))
