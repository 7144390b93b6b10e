"""docs/ref-json.md: what the verbs of the grid print is of the shape that it gives, on a grid that has trained something."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from laminar.cli.verbs import VERBS
from tests.e2e.json_shapes import SHAPES, differences
from tests.multi.grid.served import Commands, commands
from tests.multi.grid.test_grid_commands import STACK

VERBS_HERE = {
    "grid status": "grid status",
    "grid nodes": "grid nodes",
    "grid tasks": "grid tasks",
    "grid rounds": "grid rounds",
    "grid trust": "grid trust n0",
    "grid token": "grid token",
    "grid token --for": "grid token --for ann",
    "grid token --id": "grid token --id 2 --uses 5",
    "grid token --revoke": "grid token --revoke 2",
    "grid pause": "grid pause",
    "grid resume": "grid resume",
    "grid stop": "grid stop {run}",
    "grid ban": "grid ban n0",
    "grid leave": "grid leave --home n1",
    "grid simulate": "grid simulate --nodes 20 --hours 1 --adversaries 10% -q",
}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    folder = tmp_path_factory.mktemp("json")
    (folder / "laminar.toml").write_text(STACK)
    with commands(folder) as made:
        made.serve()
        for i in range(2):
            made.join(f"n{i}", "--tasks", "2")
        train = made.train("net", "--rounds", "1", "--workers", "2", "--local-steps", "2")
        made.trained = train.communicate(timeout=120)[0]
        yield made


def test_every_verb_is_tried() -> None:
    described = {verb for verb in SHAPES if verb.startswith("grid ")}
    assert described == {*VERBS_HERE, "grid serve", "grid train"}
    assert {verb.split(" --")[0] for verb in described} <= set(VERBS)


def test_what_the_server_and_a_training_print(grid: Commands) -> None:
    assert list(differences(grid.told, SHAPES["grid serve"])) == []
    assert list(differences(json.loads(grid.trained), SHAPES["grid train"])) == []


@pytest.mark.parametrize("verb", VERBS_HERE)
def test_the_shape_is_as_described(verb: str, grid: Commands) -> None:
    run = grid.ask("/v1/status")["runs"][0]["name"]
    done = grid.run(*VERBS_HERE[verb].format(run=run).split(), "--json")
    assert done.returncode == 0, done.stderr
    assert list(differences(json.loads(done.stdout), SHAPES[verb])) == []
