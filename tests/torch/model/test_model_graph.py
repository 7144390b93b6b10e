"""A model kept without its source does what the original does, in both forms, whole or in parts."""

from __future__ import annotations

import copy
import functools
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from model_zoo import ZOO, Cnn, Mlp, batch, make
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.model.freeze import freeze
from laminar.model.graph import Forms, export_forms, load_forms, structure_of
from laminar.model.graph_module import GraphModule
from laminar.model.paths import paths
from laminar.model.replace import put, replace
from laminar.model.weights import raw_state, state
from tests.thinned import thinned


@functools.cache
def forms(name: str) -> Forms:
    made = export_forms(make(name), batch())
    assert made.note == ""
    return made


def loaded(name: str) -> tuple[nn.Module, nn.Module]:
    """The original, and the model of its archives and a copy of its tensors."""
    original = make(name)
    tensors, aliases = state(original)
    made = forms(name)
    return original, load_forms(made.train, made.eval, {k: v.clone() for k, v in tensors.items()}, aliases)


def train(model: nn.Module, *, steps: int = 4, keep: object = None) -> None:
    torch.manual_seed(11)
    model.train()
    if keep is not None:
        keep.keep()  # type: ignore[attr-defined]
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9)
    x, y = batch(), torch.arange(6) % 5
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def assert_same_state(a: nn.Module, b: nn.Module) -> None:
    sa, sb = a.state_dict(), b.state_dict()
    assert list(sa) == list(sb)
    for name, value in sa.items():
        torch.testing.assert_close(sb[name], value, rtol=1e-6, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("name", sorted(ZOO))
class TestEveryModel:
    def test_names_and_order_are_the_originals(self, name: str) -> None:
        a, b = loaded(name)
        assert [(n, p.shape, p.requires_grad) for n, p in a.named_parameters()] == [
            (n, p.shape, p.requires_grad) for n, p in b.named_parameters()
        ]
        assert [n for n, _ in a.named_buffers()] == [n for n, _ in b.named_buffers()]
        assert list(a.state_dict()) == list(b.state_dict())
        assert paths(a) == paths(b)
        assert state(a)[1] == state(b)[1]

    @pytest.mark.parametrize("training", [False, True])
    def test_outputs_are_equal_for_any_batch_size(self, name: str, training: bool) -> None:
        a, b = loaded(name)
        a.train(training)
        b.train(training)
        for size in (2, 1, 7) if not training else (2, 7):
            torch.manual_seed(size)
            expected = a(batch(size))
            torch.manual_seed(size)
            torch.testing.assert_close(b(batch(size)), expected, rtol=1e-6, atol=1e-6)

    def test_training_gives_the_same_weights_and_statistics(self, name: str) -> None:
        a, b = loaded(name)
        before = {k: v.clone() for k, v in b.state_dict().items()}
        train(a)
        train(b)
        assert_same_state(a, b)
        assert not torch.equal(before["head.weight"], b.state_dict()["head.weight"])

    def test_training_with_frozen_features_gives_the_same_weights(self, name: str) -> None:
        a, b = loaded(name)
        wanted = ["features"] if name != "tied" else ["features", "again"]
        for model in (a, b):
            frozen = freeze(model, wanted)
            frozen.digest()
            train(model, keep=frozen)
            frozen.check()
        assert_same_state(a, b)

    def test_a_replaced_head_is_used_in_both_forms(self, name: str) -> None:
        a, b = loaded(name)
        for model in (a, b):
            replace(model, "head", "laminar:head", {"hidden": [4], "dropout": 0.5}, Path(), seed=1, inject={"classes": 3})
        train_and_compare(a, b)


@pytest.mark.parametrize("name", thinned(["tied", "constants", "cnn", "residual", "no_grad"], keep=2))
def test_a_changed_graph_exports_again_as_its_source_would(name: str) -> None:
    a, b = loaded(name)
    for model in (a, b):
        replace(model, "head", "laminar:head", {"hidden": [4], "dropout": 0.5}, Path(), seed=1, inject={"classes": 3})
    again, from_source = export_forms(b, batch(2)), export_forms(a, batch(3))
    assert again.note == from_source.note == ""
    assert again.structure == from_source.structure
    assert again.structure != forms(name).structure
    third = load_forms(again.train, again.eval, *state(b))
    third.eval()
    assert torch.equal(third(batch()), b.eval()(batch()))


def train_and_compare(a: nn.Module, b: nn.Module) -> None:
    x = batch()
    for training in (True, False):
        a.train(training)
        b.train(training)
        torch.manual_seed(0)
        expected = a(x)
        torch.manual_seed(0)
        torch.testing.assert_close(b(x), expected, rtol=1e-6, atol=1e-6)


def test_a_frozen_batchnorm_alone_runs_as_in_evaluation_while_the_rest_trains() -> None:
    a, b = loaded("cnn")
    for model in (a, b):
        frozen = freeze(model, ["features.1"])
        frozen.digest()
        train(model, keep=frozen)
        frozen.check()
    assert_same_state(a, b)
    assert b.get_buffer("features.1.num_batches_tracked") == 0


def test_a_module_inside_a_sequential_and_an_identity_can_be_replaced() -> None:
    a, b = loaded("residual")
    for path in ("blocks.1.norm", "nothing", "shared.0"):
        new = nn.Identity() if path == "blocks.1.norm" else nn.Linear(4, 4) if path == "nothing" else nn.Conv2d(4, 4, 1)
        put(a, path, new)
        put(b, path, copy.deepcopy(new))
    train_and_compare(a, b)


def test_facts_of_modules_are_kept_for_heads_that_ask_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text("from torch import nn\ndef head(old, classes): return nn.Linear(old.in_features, classes)\n")
    _, b = loaded("cnn")
    replace(b, "head", "models:head", {}, tmp_path, seed=0, inject={"classes": 2})
    assert b(batch()).shape == (6, 2)
    assert "Linear" in repr(b)


def test_a_deep_copy_is_a_model_of_its_own() -> None:
    _, b = loaded("constants")
    c = copy.deepcopy(b)
    train(c)
    assert not torch.equal(c.state_dict()["head.weight"], b.state_dict()["head.weight"])
    assert_same_state(b, loaded("constants")[1])


def test_parts_can_be_called_on_their_own() -> None:
    a, b = loaded("cnn")
    a.eval()
    b.eval()
    assert torch.equal(a.get_submodule("features")(batch()), b.get_submodule("features")(batch()))


def test_export_leaves_the_model_as_it_was() -> None:
    model = make("cnn")
    frozen = freeze(model, ["features"])
    model.train()
    frozen.keep()
    x = batch().requires_grad_(False)
    before = (
        {k: v.clone() for k, v in model.state_dict().items()},
        [m.training for m in model.modules()],
        [p.requires_grad for p in model.parameters()],
    )
    rng = torch.get_rng_state()
    made = export_forms(model, x, frozen=frozen)
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in before[0].items())
    assert before[1:] == ([m.training for m in model.modules()], [p.requires_grad for p in model.parameters()])
    assert torch.equal(rng, torch.get_rng_state())
    assert not model._forward_hooks
    assert made == forms("cnn"), "freezing leaves no trace in the graph"


def test_what_the_author_does_not_train_stays_untrained() -> None:
    model = make("mlp")
    model.get_parameter("features.1.bias").requires_grad_(False)
    made = export_forms(model, batch())
    back = load_forms(made.train, made.eval, *state(model))
    assert [n for n, p in back.named_parameters() if not p.requires_grad] == ["features.1.bias"]
    assert made.structure == forms("mlp").structure


def test_raw_tensors_of_the_store_are_used_in_place() -> None:
    model = make("tied")
    raws, aliases = raw_state(model)
    made = forms("tied")
    back = load_forms(made.train, made.eval, raws, aliases)
    with torch.no_grad():
        model.get_parameter("head.bias").fill_(9)
    assert back.get_parameter("head.bias")[0] == 9
    assert back.get_parameter("again.weight") is back.get_parameter("features.weight")


def test_a_missing_tensor_is_named() -> None:
    made = forms("mlp")
    tensors, _ = state(make("mlp"))
    del tensors["head.bias"]
    with pytest.raises(LaminarError, match=r"'head\.bias'") as caught:
        load_forms(made.train, made.eval, tensors)
    assert caught.value.code == "L205"


def test_structure_ignores_weights_batch_size_class_names_and_refactoring() -> None:
    class Renamed(nn.Module):
        """As Cnn, written otherwise."""

        def __init__(self) -> None:
            super().__init__()
            layers: list[nn.Module] = [
                nn.Conv2d(1, 4, 3, padding=1),
                nn.BatchNorm2d(4),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(2),
                nn.Dropout(0.3),
            ]
            self.features = nn.Sequential(*layers)
            self.head = nn.Linear(64, 5)

        def forward(self, images: Tensor) -> Tensor:
            features = self.features(images)
            flat = features.view(images.size(0), -1)
            logits: Tensor = self.head(flat)
            return logits

    torch.manual_seed(99)
    for size in (1, 2, 5):
        made = export_forms(Renamed(), torch.zeros(size, 1, 8, 8))
        assert made.structure == forms("cnn").structure


def test_structure_sees_what_changes_the_computation() -> None:
    def changed(change: object) -> str:
        model = Cnn()
        change(model)  # type: ignore[operator]
        return export_forms(model, batch()).structure

    seen = {forms("cnn").structure}
    seen.add(changed(lambda m: m.features.__setitem__(4, nn.Dropout(0.4))))
    seen.add(changed(lambda m: m.features.__setitem__(2, nn.GELU())))
    seen.add(changed(lambda m: setattr(m.features[1], "momentum", 0.2)))
    a, b = make("constants"), make("constants")
    b.scale = torch.ones(16)
    seen |= {export_forms(a, batch()).structure, export_forms(b, batch()).structure}
    assert len(seen) == 6


def test_archives_are_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    script = tmp_path / "again.py"
    script.write_text(
        "import hashlib, sys, torch\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from model_zoo import batch, make\n"
        "from laminar.model.graph import export_forms\n"
        "torch.set_num_threads(1)\n"
        "made = export_forms(make('constants'), batch(4))\n"
        "print(made.structure, hashlib.sha256(made.train + made.eval).hexdigest())\n"
    )
    env = {**os.environ, "PYTHONHASHSEED": "12345"}
    said = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=True).stdout
    made = forms("constants")
    assert said.split() == [made.structure, hashlib.sha256((made.train or b"") + (made.eval or b"")).hexdigest()]


def test_no_weights_and_no_traces_are_in_the_archive() -> None:
    import io
    import zipfile

    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 5000), nn.ReLU(), nn.Linear(5000, 5000), nn.Linear(5000, 5))
    made = export_forms(model, batch())
    assert made.train is not None
    assert made.eval is not None
    assert sum(p.numel() * 4 for p in model.parameters()) > 100e6
    assert len(made.train) + len(made.eval) < 50_000
    for data in (made.train, made.eval, forms("constants").eval or b""):
        names = zipfile.ZipFile(io.BytesIO(data)).namelist()
        assert not [n for n in names if n.endswith((".pt", ".pkl")) or "weights" in n or "sample_inputs" in n]
        text = zipfile.ZipFile(io.BytesIO(data)).read("model/models/model.json").decode()
        assert ".py" not in text
        assert "stack_trace" not in text


def test_both_forms_digest_to_the_structure() -> None:
    made = forms("residual")
    assert made.train is not None
    assert made.eval is not None
    assert structure_of(made.train, made.eval) == made.structure


class DependsOnData(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # this is the line
            x = -x
        return self.head(x.flatten(1))  # type: ignore[no-any-return]


def test_a_model_that_cannot_be_exported_says_why_and_where() -> None:
    made = export_forms(DependsOnData(), batch(), fallback_structure="f" * 64)
    assert (made.train, made.eval, made.structure) == (None, None, "f" * 64)
    line = next(i for i, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "this is the line" in text)
    assert f"test_model_graph.py:{line}" in made.note
    assert "\n" not in made.note
    with pytest.raises(LaminarError) as caught:
        load_forms(None, None, {})
    assert caught.value.code == "L206"


def test_a_model_that_needs_a_fixed_batch_size_is_not_exported() -> None:
    class Fixed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(3, -1)[:, :5] if x.shape[0] == 3 else x.flatten(1)

    assert export_forms(Fixed(), batch()).train is None


def test_values_that_pass_beside_the_arguments_are_carried_or_refused_by_name() -> None:
    class Sneaky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(64, 8), nn.Linear(8, 5)
            self.wrap = Wrap(self)
            self.seen: list[Tensor] = []

        def forward(self, x: Tensor) -> Tensor:
            self.seen = [x.flatten(1) * 2]
            return self.second(self.wrap(x))  # type: ignore[no-any-return]

    class Wrap(nn.Module):
        def __init__(self, outer: nn.Module) -> None:
            super().__init__()
            self.outer = [outer]
            self.drop = nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return self.drop(self.outer[0].first(self.outer[0].seen[0]))  # type: ignore[no-any-return]

    model = Sneaky()
    made = export_forms(model, batch())
    if made.train is None:
        assert made.note
        return
    back = load_forms(made.train, made.eval, *state(model))
    train_and_compare(model, back)
    back.train()
    back.get_submodule("wrap").eval()
    with pytest.raises(LaminarError, match="'wrap' exchanges values"):
        back(batch())


def test_graph_modules_are_made_of_data_alone() -> None:
    _, b = loaded("mlp")
    assert all(type(m).__module__ == GraphModule.__module__ for m in b.modules())
    assert Mlp.__name__ in repr(b)


class Averaging(nn.Module):
    """Assigns to its buffer; frozen, it must not."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(64))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return x - self.mean


class WithAveraging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features, self.extra, self.head = Averaging(), nn.Dropout(0.5), nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        if self.training:
            x = self.extra(x)
        return self.head(x)  # type: ignore[no-any-return]


def test_a_buffer_assigned_inside_a_module_is_kept_frozen_or_not() -> None:
    model = WithAveraging()
    made = export_forms(model, batch())
    assert made.note == ""
    assert not model.features.mean.any(), "a trial run leaves no trace"
    back = load_forms(made.train, made.eval, {k: v.clone() for k, v in state(model)[0].items()})
    for one in (model, back):
        train(one)
    assert_same_state(model, back)
    assert back.get_buffer("features.mean").any()
    for one in (model, back):
        frozen = freeze(one, ["features"])
        frozen.digest()
        train(one, keep=frozen)
        frozen.check()
    assert_same_state(model, back)


def test_freezing_a_module_that_evaluation_never_calls_says_so() -> None:
    model = WithAveraging()
    made = export_forms(model, batch())
    back = load_forms(made.train, made.eval, *state(model))
    freeze(back, ["extra"])
    back.train()
    back.get_submodule("extra").eval()
    with pytest.raises(LaminarError, match="'extra' was not called when the model was exported in evaluation") as caught:
        back(batch())
    assert caught.value.code == "L203"


def test_a_gradient_written_by_hand_cannot_be_kept_and_is_noticed() -> None:
    class Straight(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:  # type: ignore[override]  # noqa: ARG004
            return x.sign()

        @staticmethod
        def backward(ctx: object, grad: Tensor) -> Tensor:  # type: ignore[override]  # noqa: ARG004
            return grad

    class Binary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(64, 8), nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(Straight.apply(self.first(x.flatten(1))))  # type: ignore[no-any-return, no-untyped-call]

    made = export_forms(Binary(), batch(), fallback_structure="s")
    assert made.train is None
    assert "gives other numbers" in made.note


def test_sparse_gradients_can_be_kept() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.bag = nn.Embedding(9, 3, sparse=True), nn.EmbeddingBag(9, 3, mode="sum", sparse=True)

        def forward(self, x: Tensor) -> Tensor:
            at = (x.flatten(1) * 3).long().clamp(0, 8)
            return self.table(at).sum(1) + self.bag(at)  # type: ignore[no-any-return]

    made = export_forms(Words(), batch(), fallback_structure="s")
    assert made.note == "" and made.train is not None


def test_a_loaded_sequential_has_places_as_its_source(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text("from torch import nn\ndef head(old, classes): return nn.Linear(old[-1].in_features, classes)\n")
    model = nn.Sequential(nn.Flatten(), nn.Sequential(nn.ReLU(), nn.Linear(64, 3)))
    forms = export_forms(model, batch())
    copied = load_forms(forms.train, forms.eval, *state(model))
    replace(copied, "1", "models:head", {}, tmp_path, seed=0, inject={"classes": 2})
    assert copied(batch()).shape == (6, 2)
    assert [type(part).__name__ for part in load_forms(forms.train, forms.eval, *state(model))[1]] == ["GraphModule"] * 2  # type: ignore[index]
