"""Networks by name: as many parameters as the papers' networks, trained at a small width, exported, and trained on a grid."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from laminar.core import digest
from laminar.core.closure import closure
from laminar.core.errors import LaminarError
from laminar.data.make_index import write_index
from laminar.data.spec import DataSpec
from laminar.grid.daemons.learner import TorchLearner
from laminar.grid.describe import version_of
from laminar.grid.population.hall import Hall
from laminar.grid.wire.messages import About
from laminar.model import factory
from laminar.model.build import make_model
from laminar.model.factory import BUILTINS, load_factory
from laminar.model.freeze import freeze
from laminar.model.graph import export_forms, load_forms
from laminar.model.replace import replace
from laminar.model.weights import state
from laminar.train.on_grid import Grid
from tests.multi.data.mirror_servers import Mischief, naughty_http
from tests.torch.grid.test_node_worker import job, node

DOCS = Path(__file__).parents[3] / "docs"
MODEL = Path(factory.__file__).parent
PAPERS = {  # by the sizes of their modules; ref-networks.md says what each paper says
    "alexnet": ((3, 224, 224), 60_965_224),
    "vgg16": ((3, 224, 224), 138_357_544),
    "resnet50": ((3, 224, 224), 25_557_032),
    "resnet152": ((3, 224, 224), 60_192_808),
    "inceptionv3": ((3, 299, 299), 23_834_568),
    "tcnn": ((3, 227, 227), 23_682_792),
}
LEAST = {"alexnet": 63, "vgg16": 32, "resnet50": 32, "resnet152": 32, "inceptionv3": 75, "tcnn": 31}
SERIES = ("lstm", "transformer")
NETWORKS = (*PAPERS, *SERIES)
# Exporting the deep ones takes seconds, which is done once for every test run: on the grid, where ResNet-50 stands for both.
DEEP = ("resnet50", "resnet152", "inceptionv3")


def made(name: str, shape: tuple[int, ...], classes: int = 3, **args: object) -> nn.Module:
    return make_model(f"laminar:{name}", args, Path(), seed=0, inject={"classes": classes, "input_shape": shape})


def small(name: str, side: int | None = None, channels: int = 1) -> tuple[nn.Module, tuple[int, ...]]:
    shape = (1, 6, 5) if name in SERIES else (channels, *[side or LEAST[name]] * 2)
    return made(name, shape, width=16 if name in SERIES else 1 / 16), shape


@pytest.mark.parametrize("name", PAPERS)
def test_a_network_has_as_many_parameters_as_the_papers(name: str) -> None:
    shape, count = PAPERS[name]
    with torch.device("meta"):
        network = load_factory(f"laminar:{name}", Path())(classes=1000, input_shape=shape)
        assert network(torch.empty(2, *shape)).shape == (2, 1000)
    assert sum(parameter.numel() for parameter in network.parameters()) == count
    page = (DOCS / "ref-networks.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `laminar:{name}` |")]
    assert f"{count:,}" in row and f"{LEAST[name]}x{LEAST[name]}" in row


def test_alexnet_has_the_papers_groups_and_the_same_size_at_227() -> None:
    with torch.device("meta"):
        networks = [load_factory("laminar:alexnet", Path())(classes=1000, input_shape=(3, side, side)) for side in (224, 227)]
    for network in networks:
        convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
        assert [module.groups for module in convolutions] == [1, 2, 1, 2, 2]
        assert sum(parameter.numel() for parameter in network.parameters()) == PAPERS["alexnet"][1]
    with torch.device("meta"):
        assert networks[0].features[0](torch.empty(1, 3, 224, 224)).shape == (1, 96, 55, 55)  # the paper's 55x55


def test_every_network_is_on_the_page_and_in_the_reference() -> None:
    page, reference = ((DOCS / name).read_text(encoding="utf-8") for name in ("ref-networks.md", "ref-stack-file.md"))
    for name in BUILTINS:
        assert f'"laminar:{name}"' in reference
        if name in NETWORKS:
            assert f"| `laminar:{name}` |" in page


@pytest.mark.parametrize("name", NETWORKS)
def test_a_small_network_learns(name: str) -> None:
    torch.manual_seed(0)
    network, shape = small(name)
    dice = torch.Generator().manual_seed(1)
    y = torch.arange(12) % 3
    x = torch.rand(12, *shape, generator=dice) * 0.3 + y[:, None, None, None] * 0.3
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert all(parameter.grad is not None and torch.isfinite(parameter.grad).all() for parameter in network.parameters())
    assert abs(losses[0] - np.log(3)) < 0.7 and min(losses[4:]) < losses[0]


@pytest.mark.parametrize("name", NETWORKS)
def test_features_can_be_frozen_and_the_head_replaced(name: str) -> None:
    network, shape = small(name)
    replace(network, "head", "laminar:head", {"classes": 7}, Path(), seed=1)
    assert network(torch.zeros(2, *shape)).shape == (2, 7)
    freeze(network, ["features"])
    learning = [key for key, parameter in network.named_parameters() if parameter.requires_grad]
    assert sorted(learning) == ["head.bias", "head.weight"]


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in DEEP else ()) for name in NETWORKS])
def test_the_exported_graph_gives_what_the_network_gives(name: str) -> None:
    network, shape = small(name)
    forms = export_forms(network, torch.rand(2, *shape))
    assert forms.note == ""
    assert forms.train is not None and forms.eval is not None
    tensors, aliases = state(network)
    kept = load_forms(forms.train, forms.eval, {key: value.clone() for key, value in tensors.items()}, aliases)
    x = torch.rand(3, *shape)
    torch.testing.assert_close(kept.eval()(x), network.eval()(x))


@pytest.mark.slow  # 2 to 20 s each: hundreds of megabytes of weights
@pytest.mark.parametrize("name", PAPERS)
def test_a_network_of_the_papers_size_is_exported(name: str) -> None:
    shape, count = PAPERS[name]
    network = made(name, shape, classes=1000)
    forms = export_forms(network, torch.zeros(2, *shape))
    assert forms.note == "" and forms.eval is not None
    assert sum(parameter.numel() for parameter in network.parameters()) == count


@pytest.mark.parametrize("name", PAPERS)
def test_an_image_that_is_too_small_and_a_width_of_nothing_are_refused(name: str) -> None:
    least = LEAST[name]
    assert small(name)[0](torch.zeros(2, 1, least, least)).shape == (2, 3)
    for shape in ((1, least - 1, 99), (3, 99, least - 1), (99,)):
        with pytest.raises(LaminarError, match=f"laminar:{name} needs images .* of {least}x{least} pixels or more") as caught:
            made(name, shape)
        assert caught.value.code == "L202" and f"size = {least}" in caught.value.hint
    with pytest.raises(LaminarError, match="width = 0"):
        made(name, (1, 99, 99), width=0)


def test_series_that_are_none_are_refused() -> None:
    for name in SERIES:
        with pytest.raises(LaminarError, match=f"laminar:{name} needs series .* got samples of shape \\(7,\\)") as caught:
            made(name, (7,))
        assert caught.value.code == "L202" and "shape = [1, steps, features]" in caught.value.hint
        with pytest.raises(LaminarError, match="expected 1 or more"):
            made(name, (1, 6, 5), depth=0)
    with pytest.raises(LaminarError, match="width = 10 cannot be shared out to heads = 4"):
        made("transformer", (1, 6, 5), width=10)


def test_a_series_is_read_step_by_step() -> None:
    """What comes in the last step changes the output; the order of steps counts in both; channels are features of a step."""
    for name in SERIES:
        network = made(name, (2, 6, 5), width=8, dropout=0.0).eval()
        x = torch.rand(4, 2, 6, 5)
        late = x.clone()
        late[:, 1, -1] += 1
        assert not torch.allclose(network(x), network(late))
        assert not torch.allclose(network(x), network(x.flip(2)))


def test_keys_of_the_first_built_in_models_stand() -> None:
    """What these factories reach is in the key of every layer that uses them: other text trains all of those layers again."""
    found = {name: digest.of_json(closure(BUILTINS[name], name, MODEL))[:16] for name in ("mlp", "linear", "convnet", "head")}
    assert found == {"mlp": "b9cd510f24e3692d", "linear": "6ded22399a803496", "convnet": "a0554cba4e59f753", "head": "6c4aa28120b262a5"}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_in_the_key_with_all_that_it_is_made_of(name: str) -> None:
    found = set(closure(BUILTINS[name], name, MODEL))
    file = BUILTINS[name].replace(".", "/") + ".py"
    assert {f"{file}:{name}", "builtin.py:FeaturesAndHead"} <= found
    if name in PAPERS:
        assert {f"networks/parts.py:{part}" for part in ("wide", "draw_weights", "with_head", "image_sides")} <= found


# On a grid


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Images of 75x75 pixels, which every network takes, as a node of a grid fetches them."""
    from PIL import Image

    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path / "cache"))
    dice = np.random.default_rng(5)
    files: dict[str, bytes] = {}
    for level, label in ((60, "bark"), (160, "cloth")):
        for i in range(5):
            path = tmp_path / "images" / label / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.clip(dice.normal(level, 20, (75, 75)), 0, 255).astype(np.uint8)).save(path)
            files[f"{label}/{i}.png"] = path.read_bytes()
    write_index(tmp_path / "images", tmp_path / "index.json")
    with naughty_http(Mischief(files=files | {"index.json": (tmp_path / "index.json").read_bytes()})) as url:
        yield url


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name == "resnet152" else ()) for name in NETWORKS])
def test_two_rounds_on_a_grid(name: str, mirror: str, tmp_path: Path) -> None:
    """The server's own code, and what a node does with the graph that it is given: no code of the network is there."""
    network = made(name, (1, 75, 75), classes=2, width=8 if name in SERIES else 1 / 32)
    spec = DataSpec(source=f"index:{mirror}/index.json")
    grid = Grid(workers=1, rounds=2, local_steps=2, quorum=1.0, replicate="never")
    job_here, described = job(tmp_path, grid, spec, model=network, batch=4, lr=0.01)
    version = version_of(job_here)
    hall = Hall(TorchLearner())
    run = hall.begin("run", described.settings, version, msgspec.json.decode(described.about, type=About), described.files)
    me = hall.enrol(base64.b64encode(b"k" * 32).decode(), "me")
    home, worker = node(tmp_path, described, version, allow_private=True)
    rounds = 0
    while hall.run(run).state == "open" and rounds < 5:
        (task,) = hall.ask(me).tasks
        row = hall.version(run, task.version.number).tobytes()
        home.keep_version("run", task.version.number, row)
        assert worker.do(task)["samples"] == 8
        hall.answer(me, task.result, home.answer_path(task.result).read_bytes())
        hall.office.turn()
        hall.now += 1.0
        rounds += 1
    assert (hall.run(run).state, hall.run(run).version, rounds) == ("done", 2, 2)
    first, last = hall.version(run, 0), hall.version(run, 2)
    assert np.isfinite(last).all() and not np.array_equal(first, last)
    hall.close()
