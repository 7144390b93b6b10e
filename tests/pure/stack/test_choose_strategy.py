"""A strategy from the command line: what is not given stays as written; mistakes name the valid words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from laminar.core.errors import LaminarError
from laminar.stack.choose_strategy import with_strategy
from laminar.stack.in_words import in_words, strategy_in_words
from laminar.stack.key import changes
from laminar.stack.read import StackFile, parse
from laminar.stack.team_heard import TeamHeard
from laminar.train.compression import TopK
from laminar.train.recipe import Recipe
from laminar.train.splitting import Mesh
from laminar.train.strategies import BY_NAME, AnyStrategy, Averaging, Downpour, OuterNesterov, Quorum, Solo, Sync, strategy


def stack(*written: str, train: str = "epochs = 1") -> StackFile:
    """A stack with a layer for each strategy; empty: none is written."""
    layers = [
        f'[[layer]]\nname = "l{i}"\nmodel = "laminar:mlp"\ndata = "d"\ntrain = {{ {train}{f", strategy = {s}" if s else ""} }}\n'
        for i, s in enumerate(written)
    ]
    return parse('[stack]\nname = "s"\n[data.d]\nsource = "digits"\n' + "".join(layers), Path("laminar.toml"))


def chosen(file: StackFile, *words: Any, **more: Any) -> list[AnyStrategy]:
    return [strategy(layer.train.strategy) for layer in with_strategy(file, *words, **more).spec.layer]


def test_settings_behind_the_name_are_those_of_the_stack_file() -> None:
    assert chosen(stack(""), "downpour:shards=3,n_push=8,overlap=false,ageing=1", 6) == [
        Downpour(workers=6, shards=3, n_push=8, overlap=False, ageing=1.0)
    ]
    assert chosen(stack(""), "averaging:every=end,outer=nesterov,host=0.0.0.0", None) == [
        Averaging(every="end", outer="nesterov", host="0.0.0.0")
    ]


def test_tables_may_have_commas() -> None:
    given = 'mesh:mesh={ rows = 2, cols = 2 },split={ batch = "rows", hidden = "cols" },timeout=5'
    (how,) = chosen(stack(""), given, None)
    assert how == Mesh(mesh={"rows": 2, "cols": 2}, split={"batch": "rows", "hidden": "cols"}, timeout=5)
    assert how.workers == 4


def test_compression_is_a_name_or_a_name_with_settings() -> None:
    assert chosen(stack(""), "quorum", 4, compress="int8") == [Quorum(workers=4, compress="int8")]
    assert chosen(stack(""), None, 2, compress="topk:sparsity=0.9") == [Sync(compress=TopK(sparsity=0.9))]


def test_what_is_not_given_is_as_written_for_each_layer() -> None:
    file = stack('{ kind = "averaging", every = 8, outer = { kind = "nesterov", lr = 0.5 } }', "", '"sync"')
    same = Averaging(workers=4, every=8, outer=OuterNesterov(lr=0.5))
    assert chosen(file, None, 4) == [same, Sync(workers=4), Sync(workers=4)]
    assert chosen(file, "averaging", 4) == [same, Averaging(workers=4), Averaging(workers=4)]
    assert chosen(file, None, None, elastic=True) == [msgspec.structs.replace(same, workers=2, elastic=True), Solo(), Sync(elastic=True)]


def test_a_written_strategy_of_one_worker_is_kept_for_more() -> None:
    assert chosen(stack('{ kind = "downpour", workers = 1 }'), None, 3) == [Downpour(workers=3)]


def test_a_layer_that_is_not_asked_for_forbids_nothing() -> None:
    text = '[stack]\nname = "s"\n[data.d]\nsource = "digits"\n'
    for name, more in (("a", ""), ("b", ", accumulate = 4"), ("c", "")):
        text += f'[[layer]]\nname = "{name}"\nmodel = "laminar:mlp"\ndata = "d"\ntrain = {{ epochs = 1{more} }}\n'
    file = parse(text, Path("laminar.toml"))
    with pytest.raises(LaminarError, match="layer b: accumulate is 4"):
        with_strategy(file, "quorum", 3)
    with pytest.raises(LaminarError, match="layer b: accumulate is 4"):
        with_strategy(file, "quorum", 3, targets=["a", "b"])
    assert chosen(file, "quorum", 3, targets=["a"]) == [Quorum(workers=3), Solo(), Quorum(workers=3)]


@pytest.mark.parametrize(
    ("words", "more", "said", "hint"),
    [
        (["snc", None], {}, "did you mean 'sync'?", "averaging | downpour"),
        (["downpour:shrads=3", None], {}, "no setting 'shrads'; did you mean 'shards'?", "n_push, n_fetch"),
        (["downpour:shards", None], {}, "'shards' is no setting", "key=value"),
        (["downpour:shards=x", None], {}, "shards is 'x': expected a whole number, got text", ""),
        (["downpour:shards=0", None], {}, "shards is 0, but must be 1 or more", ""),
        (["downpour:push=step", None], {}, "push is 'step': it must be one of gradients, steps", ""),
        (["downpour:smooth=-1", None], {}, "smooth is -1, but must be 0 or more batches", ""),
        (["averaging:outer=nestrov", None], {}, "outer is 'nestrov': it must be one of average, nesterov", ""),
        (["averaging:outer={ kind = 'nesterov', lr = inf }", None], {}, "outer.lr is inf and outer.momentum 0.9, but must be a number", ""),
        (["averaging:outer={ kind = 'nesterov', lr = x }", None], {}, "outer is", ""),
        (["averaging:outer={ kind = 'nesterov', lr = 'x' }", None], {}, "outer.lr is 'x': expected a number, got text", ""),
        (["averaging:outer={ kind = 'nestrov' }", None], {}, "outer.kind is 'nestrov': it must be one of average, nesterov", ""),
        (["averaging:compress={ kind = 'dcg' }", None], {}, "compress.kind is 'dcg': it must be one of none, fp16", ""),
        (["mesh:mesh={ cols = 'x' }", None], {}, "mesh has a value of another kind: expected a whole number", ""),
        (["downpour:compress={ kind = 'dgc', values = 'float8' }", None], {}, "values is 'float8': it must be one of float16", ""),
        (["downpour:compress={ kind = 'dgc', vlues = 1 }", None], {}, "vlues", ""),
        (["downpour:compress={ sparsity = 0.5 }", None], {}, "kind", ""),
        (["downpour:workers=3", 2], {}, "--strategy downpour:workers=3 has workers = 3, but --workers is 2", "leave one of the two out"),
        (["sync:workers=5", 3], {"elastic": True, "fewest": 2}, "has workers = 5, but --elastic is 2:3", "--elastic"),
        (["sync:workers=4,fewest=3", 4], {"elastic": True, "fewest": 2}, "has fewest = 3, but --elastic is 2:4", "fewest in --strategy"),
        (["sync:compress=topk", 2], {"compress": "fp16"}, "has compress = topk, but --compress is fp16", "compress in --strategy"),
        (["solo", 3], {}, "workers is 3", ""),
        (["solo", None], {"elastic": True}, "solo has no setting 'elastic'", "workers"),
        ([None, 2], {"compress": "dcg"}, "did you mean 'dgc'?", "powersgd"),
        ([None, 2], {"compress": "topk:sparsty=1"}, "topk has no setting 'sparsty'; did you mean 'sparsity'?", "sparsity, sample, values"),
        ([None, 2], {"compress": "topk:sparsity=1"}, "compress.sparsity is 1.0", ""),
        ([None, 2], {"compress": "topk:values=float8"}, "compress.values is 'float8': it must be one of float16, float32", ""),
        ([None, 2], {"compress": "none:sparsity=1"}, "none has no setting", "no settings"),
        ([None, None], {"compress": "fp16"}, "every layer of laminar.toml is trained by one", "--workers 2"),
        ([None, 2], {"compress": "dgc"}, 'layer l0: compress = "dgc" is given with optimizer = "adam"', ""),
    ],
)
def test_mistakes(words: list[Any], more: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(LaminarError) as caught:
        with_strategy(stack(""), *words, **more)
    assert caught.value.code == "L008"
    assert said in caught.value.message
    assert hint in caught.value.hint and caught.value.hint


def test_the_same_number_of_workers_may_be_given_twice_and_stands_above_the_written_one() -> None:
    assert chosen(stack('{ kind = "downpour", workers = 5 }'), "downpour:workers=3", 3) == [Downpour(workers=3)]
    assert chosen(stack('{ kind = "downpour", workers = 5 }'), "downpour", 3) == [Downpour(workers=3)]


_FIELDS = [(name, field.encode_name) for name, spec in BY_NAME.items() for field in msgspec.structs.fields(spec)]


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
@pytest.mark.parametrize(("name", "field"), _FIELDS, ids=[f"{name}-{field}" for name, field in _FIELDS])
def test_no_setting_takes_what_is_no_number(name: str, field: str, value: str) -> None:
    with pytest.raises(LaminarError) as caught:
        with_strategy(stack(""), f"{name}:{field}={value}", None)
    assert caught.value.code == "L008"


def differences(before: Recipe, after: Recipe) -> list[tuple[str, Any, Any]]:
    return changes({"train": before.key_fields()}, {"train": after.key_fields()})


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, Averaging(workers=4), ["strategy: none -> averaging, 4 workers"]),
        (Averaging(workers=4, compress="int8"), None, ["strategy: averaging, 4 workers, int8 -> none"]),
        (None, Sync(workers=1), []),
        (None, Sync(compress="fp16"), ["strategy: none -> sync, 2 workers, fp16"]),
        (Averaging(), Downpour(), ["strategy: averaging -> downpour"]),
        (Averaging(), Quorum(workers=3, compress="fp16"), ["strategy: averaging, 2 workers -> quorum, 3 workers, fp16"]),
        (Downpour(), Downpour(push="steps", smooth=100), ["train.strategy.push none -> steps", "train.strategy.smooth none -> 100"]),
        (Averaging(), Averaging(every=8), ["train.strategy.every 32 -> 8"]),
        (Averaging(), Averaging(compress="topk"), ["train.strategy.compress.kind none -> topk"]),
    ],
)
def test_a_change_of_strategy_in_words(before: AnyStrategy | None, after: AnyStrategy | None, said: list[str]) -> None:
    assert in_words(differences(Recipe(epochs=1, strategy=before), Recipe(epochs=1, strategy=after)), "the data") == said


def test_what_two_kinds_have_in_common_is_compared() -> None:
    assert in_words(differences(Recipe(epochs=1), Recipe(epochs=2, optimizer="sgd")), "the data") == [
        "train.epochs 1 -> 2",
        "train.optimizer.kind adam -> sgd",
        "train.optimizer.lr 0.001 -> 0.01",
    ]


def test_the_strategy_of_a_key_in_words() -> None:
    assert strategy_in_words(Downpour(workers=1, compress="int8").key_fields()) == "downpour, 1 worker, int8"


def test_a_build_adds_up_what_epochs_say_of_their_team_unless_the_end_says_it() -> None:
    heard: list[dict[str, Any]] = []
    team = TeamHeard(heard.append)
    for sent in (10, 30):
        team({"event": "epoch", "workers": 2, "bytes": sent, "dense_bytes": 100})
    assert team.team == {"workers": 2, "bytes": 40, "dense_bytes": 200}
    team({"event": "end", "team": {"workers": 3, "bytes": 7, "staleness": 0.5}})
    assert team.team == {"workers": 3, "bytes": 7, "staleness": 0.5}
    assert len(heard) == 3


def test_a_build_by_one_process_has_no_team() -> None:
    team = TeamHeard(lambda _: None)
    team({"event": "epoch", "epoch": 0})
    team({"event": "end", "metrics": {}})
    assert team.team == {}
