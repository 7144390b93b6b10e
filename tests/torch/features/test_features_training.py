"""Training on kept features: the same weights, the frozen part computed once, and what is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from feature_models import Branching, Cnn, InPlace, Mixing, Noisy, Residual, TwoBranches, data, fit, frozen_model
from torch import Tensor, nn

from laminar.core.events import Event, nowhere
from laminar.data.dataset import Dataset, Split
from laminar.data.spec import AugmentSpec
from laminar.model.freeze import freeze
from laminar.model.graph import export_forms, load_forms
from laminar.model.prefix import NoPrefix
from laminar.model.weights import state
from laminar.store.store import Store
from laminar.train import features as features_module
from laminar.train.evaluate import evaluate
from laminar.train.features import KeptFeatures, NotKept, prepare_features
from laminar.train.job import Job, Route
from laminar.train.kept import describe_features
from laminar.train.loop import train
from laminar.train.recipe import Recipe

ALWAYS = Recipe(epochs=3, batch=16, keep_features="always")


class CountingHead(nn.Module):
    """Puts another tensor in the place of its buffer at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))
        self.head = nn.Linear(8, 3)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.steps = self.steps + 1
        return self.head(self.body(x)) * (1 + 0.01 * self.steps)


CASES: list[Any] = [
    pytest.param(CountingHead, ["body"], "adam", id="a buffer that is replaced, adam"),
    pytest.param(Cnn, ["features"], "adam", id="batchnorm and dropout, adam"),
    pytest.param(Cnn, ["features"], "sgd", id="batchnorm and dropout, sgd"),
    pytest.param(Residual, ["body"], "adam", id="residual, adam"),
    pytest.param(TwoBranches, ["a", "b"], "sgd", id="two features, sgd"),
    pytest.param(InPlace, ["conv"], "adam", id="in place, adam"),
    pytest.param(Branching, ["stem", "norm", "pool"], "adam", id="module boundaries, adam"),
    pytest.param(Branching, ["stem", "norm", "pool"], "sgd", id="module boundaries, sgd"),
]


def prepare(
    model: nn.Module, frozen: Any, dataset: Dataset, store: Store, recipe: Recipe = ALWAYS, augment: Any = None, emit: Any = nowhere
) -> Any:
    return prepare_features(model, frozen, dataset, augment, recipe, store, emit)


def kept_features(*args: Any, **more: Any) -> KeptFeatures:
    found = prepare(*args, **more)
    assert isinstance(found, KeptFeatures), found
    return found


def refusal(*args: Any, **more: Any) -> str:
    found = prepare(*args, **more)
    assert isinstance(found, NotKept), found
    return found.reason


@pytest.mark.parametrize(("kind", "paths", "optimizer"), CASES)
def test_the_same_seed_gives_the_same_weights_with_and_without(kind: Any, paths: list[str], optimizer: Any, store: Store) -> None:
    recipe = Recipe(epochs=3, batch=16, optimizer=optimizer, lr=0.01, keep_features="always", seed=5)
    dataset = data(train=90)  # the last batch of an epoch is short
    plain, frozen = frozen_model(kind, paths)
    expected = fit(plain, frozen, Route(plain, [dataset.train.x]), dataset.train.y, recipe)
    model, frozen = frozen_model(kind, paths)
    kept = kept_features(model, frozen, dataset, store, recipe)
    found = fit(model, frozen, kept.fit, dataset.train.y, recipe)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    whole = evaluate(plain, [dataset.test.x], dataset.test.y, task="classification")
    parts = evaluate(kept.test.module, kept.test.inputs, dataset.test.y, task="classification")
    assert parts == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize("batch", [8, 32])
def test_the_loop_gives_the_same_weights_and_metrics_with_and_without(batch: int, store: Store, tmp_path: Path) -> None:
    dataset = data(train=90)
    recipe = Recipe(epochs=3, batch=batch, lr=0.01, schedule="cosine", keep_features="always", seed=5)
    outcomes = []
    for keep in (False, True):
        model, frozen = frozen_model(Cnn, ["features"])
        kept = kept_features(model, frozen, dataset, store, recipe) if keep else None
        routes = {"fit": kept.fit, "test": kept.test} if kept else {}
        job = Job(
            name="x", model=model, data=dataset, recipe=recipe, frozen=frozen, folder=tmp_path / str(keep), tensorboard=False, **routes
        )
        outcomes.append((train(job).metrics, model.state_dict()))
    (plain, expected), (metrics, found) = outcomes
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert {k: metrics[k] for k in ("loss", "accuracy")} == pytest.approx({k: plain[k] for k in ("loss", "accuracy")}, abs=1e-6)


def test_a_model_loaded_from_its_graph_is_cut_like_its_source(store: Store) -> None:
    source, _ = frozen_model(Residual, ["body"])
    forms = export_forms(source, torch.rand(3, 1, 8, 8))
    loaded = load_forms(forms.train, forms.eval, state(source)[0])
    dataset = data()
    kept = kept_features(loaded, freeze(loaded, ["body"]), dataset, store)
    assert kept.note == ""  # cut in its graph
    again = kept_features(*frozen_model(Residual, ["body"]), dataset, store)
    assert (again.fkey, again.computed) == (kept.fkey, 0)


def test_preparing_leaves_the_model_and_the_random_state_alone(store: Store) -> None:
    model, frozen = frozen_model(Cnn, ["features"])
    before = copy.deepcopy(model.state_dict())
    random = torch.get_rng_state()
    threads = torch.get_num_threads()
    kept_features(model, frozen, data(), store)
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.get_num_threads() == threads


# ---- once per sample ---------------------------------------------------------------------------------------------------


def grown(small: Dataset, more: Dataset) -> Dataset:
    order = np.random.default_rng(1).permutation(len(small.train) + len(more.train))
    x = np.concatenate([small.train.x, more.train.x])[order]
    y = np.concatenate([small.train.y, more.train.y])[order]
    return Dataset(Split(x, y), small.test, small.classes)


def test_appended_data_computes_only_what_is_new(store: Store) -> None:
    small = data(train=60, test=20)
    first = kept_features(*frozen_model(Cnn, ["features"]), small, store)
    assert (first.computed, first.reused) == (80, 0)
    larger = grown(small, data(train=30, seed=9))
    model, frozen = frozen_model(Cnn, ["features"])
    second = kept_features(model, frozen, larger, store)
    assert (second.computed, second.reused, second.fkey) == (30, 80, first.fkey)
    expected = model.flatten(model.features.eval()(torch.from_numpy(larger.train.x / np.float32(255))))
    torch.testing.assert_close(torch.from_numpy(np.array(second.fit.inputs[0])), expected, rtol=0, atol=1e-6)
    third = kept_features(*frozen_model(Cnn, ["features"]), larger, store)
    assert (third.computed, third.reused) == (0, 110)
    assert "found in the store" in third.summary()


class CountingNet(nn.Module):
    """Not exportable, so that the frozen module itself runs and can count the samples it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        value = self.body(x) if x.dim() == 2 else self.body(x.flatten(1))
        if float(value.detach().sum()) > 1e9:
            value = value * 0.5
        return self.head(value)


def flat(dataset: Dataset) -> Dataset:
    return Dataset(
        Split(dataset.train.x.reshape(-1, 64), dataset.train.y), Split(dataset.test.x.reshape(-1, 64), dataset.test.y), dataset.classes
    )


def forwards(dataset: Dataset, store: Store) -> int:
    """Samples that pass the frozen module in one build: preparing, and three epochs."""
    model, frozen = frozen_model(CountingNet, ["body"])
    seen = 0

    def count(_: Any, args: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal seen
        seen += len(args[0])

    model.get_submodule("body").register_forward_hook(count)
    kept = kept_features(model, frozen, dataset, store)
    prepared, seen = seen, 0
    fit(model, frozen, kept.fit, dataset.train.y, ALWAYS)
    # a stub still calls the hook with the sample; what counts is that the weights of the frozen module are not used
    weight = model.get_parameter("body.weight")
    with torch.no_grad():
        saved = weight.clone()
        weight.fill_(float("nan"))
        assert torch.isfinite(kept.fit.module(*[torch.rand(4, *x.shape[1:]) for x in kept.fit.inputs])).all()
        weight.copy_(saved)
    return prepared


def test_forward_calls_of_the_frozen_part_are_of_new_samples_only(store: Store) -> None:
    small = flat(data(train=160, test=32))
    probing = forwards(small, store) - 192
    again = forwards(small, store)
    assert again <= probing + 16  # the probe, and the comparison of a few kept rows
    larger = Dataset(
        Split(
            np.concatenate([small.train.x, flat(data(train=48, seed=9)).train.x]), np.concatenate([small.train.y, np.zeros(48, np.int64)])
        ),
        small.test,
        small.classes,
    )
    assert forwards(larger, store) - again == 48


def test_equal_samples_are_kept_once_and_trained_on_each_time(store: Store) -> None:
    once = data(train=40, test=10)
    x, y = np.concatenate([once.train.x, once.train.x[::-1]]), np.concatenate([once.train.y, once.train.y[::-1]])
    doubled = Dataset(Split(x, y), once.test, once.classes)
    recipe = ALWAYS
    plain, frozen = frozen_model(Residual, ["body"])
    expected = fit(plain, frozen, Route(plain, [x]), y, recipe)
    model, frozen = frozen_model(Residual, ["body"])
    kept = kept_features(model, frozen, doubled, store)
    assert kept.computed == 50
    torch.testing.assert_close(fit(model, frozen, kept.fit, y, recipe), expected, rtol=0, atol=1e-6)


def test_two_layers_on_one_prefix_share_rows_and_another_prefix_does_not(store: Store) -> None:
    dataset = data()
    first = kept_features(*frozen_model(Cnn, ["features"]), dataset, store)
    model, _ = frozen_model(Cnn, ["features"])
    model.head = nn.Linear(64, 3)
    second = kept_features(model, freeze(model, ["features"]), dataset, store)
    assert (second.fkey, second.computed) == (first.fkey, 0)
    other = kept_features(*frozen_model(Cnn, ["features"], seed=4), dataset, store)
    assert other.fkey != first.fkey
    assert {k.fkey for k in describe_features(store)} == {first.fkey, other.fkey}


def test_float_samples_and_byte_samples_are_different_samples(store: Store) -> None:
    first = kept_features(*frozen_model(Cnn, ["features"]), data(), store)
    second = kept_features(*frozen_model(Cnn, ["features"]), data(dtype=np.float32), store)
    assert second.computed == 116
    assert first.fkey != second.fkey
    np.testing.assert_allclose(np.asarray(second.fit.inputs[0]), np.asarray(first.fit.inputs[0]), atol=1e-6)


# ---- damage ------------------------------------------------------------------------------------------------------------


def test_a_flipped_bit_in_kept_rows_is_found_and_computed_again(store: Store) -> None:
    dataset = data()
    first = kept_features(*frozen_model(Cnn, ["features"]), dataset, store)
    right = np.array(first.fit.inputs[0])
    file = store.features_folder(first.fkey) / "t0.bin"
    content = bytearray(file.read_bytes())
    content[1000] ^= 0x40
    file.write_bytes(content)
    second = kept_features(*frozen_model(Cnn, ["features"]), dataset, store)
    assert second.computed == 116
    assert np.array_equal(np.asarray(second.fit.inputs[0]), right)


def test_killed_while_computing_the_next_build_goes_on_behind_what_was_committed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.train.features_part.COMMIT_BYTES", 1)  # every chunk
    dataset = data(train=96, test=20)

    def die_late(event: Event) -> None:
        if event.get("action") == "computing" and event["done"] >= 48:
            raise KeyboardInterrupt

    monkeypatch.setattr("laminar.train.features.SAY_EVERY", 0.0)
    with pytest.raises(KeyboardInterrupt):
        prepare(*frozen_model(Cnn, ["features"]), dataset, store, emit=die_late)
    kept = kept_features(*frozen_model(Cnn, ["features"]), dataset, store)
    assert (kept.computed, kept.reused) == (68, 48)


def test_rows_that_are_not_what_the_prefix_computes_are_thrown_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = data()
    monkeypatch.setattr("laminar.train.features_part.key_of", lambda *_: "f" * 64)  # a key that fails to tell prefixes apart
    kept_features(*frozen_model(Cnn, ["features"], seed=4), dataset, store)
    second = kept_features(*frozen_model(Cnn, ["features"]), dataset, store)
    assert second.computed == 116


def test_a_full_disk_means_the_plain_route(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("laminar.train.features_rows.os.fsync", full)
    assert "could not be written" in refusal(*frozen_model(Cnn, ["features"]), data(), store)


# ---- refusals ----------------------------------------------------------------------------------------------------------


def test_a_module_that_mixes_the_batch_is_refused_by_name(store: Store) -> None:
    reason = refusal(*frozen_model(Mixing, ["body"]), data(), store)
    assert "'body.2' (Centre)" in reason
    assert "mixes the batch" in reason


def test_a_module_that_mixes_the_batch_is_refused_by_name_at_module_boundaries(store: Store) -> None:
    reason = refusal(*frozen_model(Branching, ["stem", "norm", "pool"], True), data(), store)
    assert "'pool.2' (Centre)" in reason


class HiddenNoise(nn.Module):
    """Random in a way that no graph shows."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng(0)
        self.inner = nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.flatten(1)) * (1 + 0.1 * float(self.generator.random()))


class Hidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = HiddenNoise()
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def test_randomness_that_no_graph_shows_is_found_by_comparing_with_the_model(store: Store) -> None:
    assert "another output than the whole model" in refusal(*frozen_model(Hidden, ["body"]), data(), store)


def test_noise_at_the_very_start_is_refused(store: Store) -> None:
    assert "'body.0' (Noise)" in refusal(*frozen_model(Noisy, ["body"], True), data(), store)


def test_a_batchnorm_left_in_training_mode_ends_the_prefix(store: Store) -> None:
    model, _ = frozen_model(Cnn, ["features"])

    class Forgetful:
        """No gradients, but batch statistics: what requires_grad alone does."""

        def keep(self) -> None:
            pass

    kept = kept_features(model, Forgetful(), data(), store)
    assert kept.modules == ("features.0",)
    before = model.get_buffer("features.1.running_mean").clone()
    kept.fit.module(*[torch.from_numpy(np.array(x[:8])) for x in kept.fit.inputs])
    assert not torch.equal(model.get_buffer("features.1.running_mean"), before)


@pytest.mark.parametrize(
    "change", [{"flip": "both"}, {"shift": 1}, {"noise": 0.1}, {"crop": 0.9}, {"rotate": 5.0}, {"cutout": 2}], ids=lambda c: next(iter(c))
)
def test_augmentation_switches_it_off_and_says_so(change: dict[str, Any], store: Store) -> None:
    heard: list[Event] = []
    reason = refusal(*frozen_model(Cnn, ["features"]), data(), store, augment=AugmentSpec(**change), emit=heard.append)
    assert "random augmentation" in reason
    assert [(e["event"], e["action"], e["why"]) for e in heard] == [("features", "not-kept", reason)]


def test_augmentation_that_changes_nothing_does_not_switch_it_off(store: Store) -> None:
    kept_features(*frozen_model(Cnn, ["features"]), data(), store, augment=AugmentSpec())


def test_the_recipe_can_forbid_it(store: Store) -> None:
    assert "never" in refusal(*frozen_model(Cnn, ["features"]), data(), store, Recipe(epochs=1, keep_features="never"))


def test_half_and_double_precision_are_never_kept_silently(store: Store) -> None:
    model, frozen = frozen_model(Cnn, ["features"])
    assert "dtype is float64" in refusal(model.double(), frozen, data(), store, Recipe(epochs=1, dtype="float64", keep_features="always"))


def test_nothing_frozen_is_not_worth_a_word(store: Store) -> None:
    model = Cnn()
    events: list[Event] = []
    found = prepare(model, freeze(model, []), data(), store, emit=events.append)
    assert isinstance(found, NotKept)
    assert found.summary() == ""
    assert events == []


def test_over_the_budget_is_refused_with_both_sizes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_FEATURES_BUDGET", "1kB")
    reason = refusal(*frozen_model(Cnn, ["features"]), data(), store, Recipe(epochs=1000, batch=16))
    assert "more than the budget of 1.0 kB" in reason


def test_other_prefixes_make_room_and_those_in_use_do_not(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (kept_features(*frozen_model(Cnn, ["features"], seed=s), data(), store) for s in (3, 4))
    monkeypatch.setenv("LAMINAR_FEATURES_BUDGET", str(int(first.bytes * 2.5)))
    with store.lease(features=[first.fkey]):
        third = kept_features(*frozen_model(Cnn, ["features"], seed=5), data(), store)
    assert {k.fkey for k in describe_features(store)} == {first.fkey, third.fkey}
    assert np.isfinite(np.asarray(second.fit.inputs[0])).all()  # who had them mapped still reads them


def test_events_tell_progress_and_the_outcome(store: Store) -> None:
    events: list[Event] = []
    prepare(*frozen_model(Cnn, ["features"]), data(), store, emit=events.append)
    assert events[-2]["done"] == events[-2]["of"] == 116
    assert (events[-1]["event"], events[-1]["action"], events[-1]["computed"]) == ("features", "kept", 116)


def test_a_short_training_is_not_looked_into(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(features_module, "find_prefix", lambda *_: looked.append(1) or NoPrefix("of the test"))
    model, frozen = frozen_model(Cnn, ["features"])
    before = {name: t.clone() for name, t in model.state_dict().items()}
    events: list[Event] = []
    reason = refusal(model, frozen, data(), store, Recipe(epochs=3, batch=16), emit=events.append)
    assert "there is little to save" in reason and looked == []
    assert events[-1] | {"why": ""} == {"event": "features", "action": "not-kept", "why": ""}
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    # one that takes longer is, and so is one that was told to
    assert refusal(model, frozen, data(), store, Recipe(epochs=10**7, batch=16)) == "of the test"
    assert refusal(model, frozen, data(), store, ALWAYS) == "of the test"
    assert looked == [1, 1]
