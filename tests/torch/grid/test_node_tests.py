"""Nodes test locally: on samples of images that no node trains on; and what they say of it decides nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image

from laminar.data.local_sample import local_sample
from laminar.data.open import open_data
from laminar.data.spec import DataSpec, FragmentSpec, SampleSpec, SplitSpec
from laminar.grid.describe import load_version, version_of
from laminar.grid.node.trainer import data_of
from laminar.grid.server import overview
from laminar.grid.wire import answer as answers
from laminar.grid.wire import messages
from laminar.grid.wire.messages import About
from laminar.train.evaluate import evaluate
from laminar.train.on_grid import Grid
from tests.torch.grid.crowd import Crowd
from tests.torch.grid.test_node_worker import change_in, job, node, task


def spec(test: int | None) -> DataSpec:
    return DataSpec(source="digits", sample=SampleSpec(per_class=20, test_per_class=test))


@pytest.mark.parametrize("steps", [1, 4])  # of one step the answer is a gradient, and the model is the version
def test_an_answer_has_what_the_nodes_own_model_gave_on_its_own_test_sample(tmp_path: Path, steps: int) -> None:
    made, described = job(tmp_path, Grid(local_steps=steps), spec(6))
    version = version_of(made)
    home, worker = node(tmp_path, described, version, samples=[7])
    worker.do(task(described, version, steps=steps, sample=7))
    change, answer = change_in(home, described)
    data = open_data(data_of(msgspec.json.decode(described.about, type=About), 7), tmp_path)
    row = np.frombuffer(version, "<f4", count=change.size) - (change if steps > 1 else 0)
    load_version(made, row.astype("<f4").tobytes() + answer.buffers.tobytes())
    wanted = evaluate(made.model, [data.test.x], data.test.y, task=data.task)
    tested = answer.head.tested
    assert tested is not None and tested.samples == len(data.test.y) == 60
    assert tested.accuracy == wanted["accuracy"] and tested.loss == pytest.approx(wanted["loss"], rel=1e-5)


def test_testing_changes_nothing_of_the_answer(tmp_path: Path) -> None:
    changes = []
    for number, test in enumerate((None, 6)):
        folder = tmp_path / str(number)
        folder.mkdir()
        made, described = job(folder, Grid(local_steps=4), spec(test))
        version = version_of(made)
        home, worker = node(folder, described, version, samples=[7])
        worker.do(task(described, version, steps=4, sample=7))
        worker.do(task(described, version, steps=4, sample=7, result=2))
        change, answer = change_in(home, described, 2)
        assert (answer.head.tested is None) == (test is None)
        changes.append((change, answer.buffers))
    assert np.array_equal(changes[0][0], changes[1][0]) and np.array_equal(changes[0][1], changes[1][1])


def test_a_test_that_gives_no_number_is_not_told(tmp_path: Path) -> None:
    made, described = job(tmp_path, Grid(local_steps=2), spec(6))
    version = version_of(made)
    home, worker = node(tmp_path, described, version)
    trainer = worker._trainer(described.about_sha256)
    with torch.no_grad():
        trainer.params["head.bias"].fill_(float("nan"))
    data = open_data(data_of(trainer.about, 7), tmp_path)
    assert trainer._test(task(described, version, steps=2, sample=7), data, lambda: None) is None
    assert home.key


def test_no_node_trains_on_an_image_that_another_tests_on(tmp_path: Path) -> None:
    """Whatever their seeds: the images are held out for all alike."""
    rng = np.random.default_rng(0)
    for name in ("bark", "cloth"):
        (tmp_path / name).mkdir()
        for number in range(10):
            pixels = rng.integers(0, 256, (24, 24), np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
    whole = DataSpec(
        source=f"folder:{tmp_path}",
        fragment=FragmentSpec(size=8, overlap=0.5),
        split=SplitSpec(test=0.3),
        sample=SampleSpec(per_class=40, test_per_class=20, seed=0),
    )
    trained: set[str] = set()
    tested: set[str] = set()
    for seed in range(20):
        drawn = local_sample(whole, tmp_path, seed=seed)
        for fragment in drawn.fragments:
            (trained if fragment["split"] == "train" else tested).add(fragment["source"])
    assert len(tested) == 6 and len(trained) == 14 and not trained & tested


def test_claims_are_shown_by_node_and_decide_nothing() -> None:
    """Half of the nodes say that they are perfect, the others nothing: versions, verdicts and reputations are the same as without."""

    def played(claims: bool) -> tuple[bytes, list[list[object]], list[dict[str, object]]]:
        crowd = Crowd(["honest"] * 4, Grid(workers=4, rounds=3, quorum=1.0, local_steps=1), seed=3)
        for _ in range(30):
            for i in range(4):
                if (given := crowd.take(i)) is not None:
                    data = crowd.packed(i, given)
                    if claims and i % 2:
                        data = saying(data, messages.Tested(samples=9, loss=0.0, accuracy=1.0))
                    crowd.hall.answer(crowd.ids[i], given.result, data)
                crowd.hall.now += 1.0
                crowd.hall.office.turn()
        kept = ("streak", "valid", "invalid", "lost", "quota", "credit", "banned")
        assert crowd.hall.run(crowd.run).state == "done"
        shown = [one["tested"] for one in crowd.hall.desk.do(lambda tx: overview.nodes_told(tx, crowd.hall.now))]
        return crowd.hall.version(crowd.run, 3).tobytes(), [[row[name] for name in kept] for row in crowd.known()], shown

    (*without, nothing), (*same, shown) = played(False), played(True)
    assert without == same and nothing == [{}] * 4
    assert [one.get("accuracy") for one in shown] == [None, 1.0, None, 1.0]
    assert shown[1]["run"] == "crowd" and shown[1]["samples"] == 9


def saying(data: bytes, tested: messages.Tested) -> bytes:
    found = answers.parse(data)
    return answers.write(msgspec.structs.replace(found.head, tested=tested), found.packet, found.buffers, found.sketch)


@pytest.mark.parametrize(
    "claim",
    ['{"samples":0,"loss":1,"accuracy":1}', '{"samples":1,"loss":1e31,"accuracy":1}', '{"samples":1,"loss":1,"accuracy":1.5}', '"perfect"'],
)
def test_a_claim_that_cannot_be_is_no_answer(claim: str) -> None:
    crowd = Crowd(["honest"], Grid(workers=1, rounds=1, local_steps=1))
    given = crowd.take(0)
    assert given is not None
    data = saying(crowd.packed(0, given), messages.Tested(samples=9, loss=0.0, accuracy=1.0))
    found = answers.parse(data)
    text = msgspec.json.encode(found.head)
    odd = text.replace(b'{"samples":9,"loss":0.0,"accuracy":1.0}', claim.encode())
    assert odd != text
    said = crowd.hall.answer(crowd.ids[0], given.result, b"LGA1" + len(odd).to_bytes(4, "little") + odd + data[8 + len(text) :])
    assert said.state == "invalid" and said.reason == "schema"
