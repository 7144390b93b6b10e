"""laminar.toml: what is legal is read, what is not is named with file, line and the nearest word."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.stack.locate import line_of
from laminar.stack.read import bottom_up, find, parent_of, parse, read

GOOD = """\
[stack]
name = "digits"

[data.even]
source = "digits"
classes = [0, 2, 4, 6, 8]

[[layer]]
name = "strokes"
model = "models:convnet"
args = { channels = [16, 32], classes = 5 }
data = "even"
train = { epochs = 5, batch = 64, optimizer = "adam", lr = 0.001, seed = 0 }

[[layer]]
name = "head"
from = "strokes"
freeze = ["features"]
replace = { head = "models:head" }
data = "even"

[layer.train]
epochs = 3
lr = 0.01
"""


def read_text(text: str) -> None:
    parse(text, Path("laminar.toml"))


def failing(text: str) -> LaminarError:
    with pytest.raises(LaminarError) as caught:
        bottom_up(parse(text, Path("laminar.toml")))
    return caught.value


def test_the_example_is_read() -> None:
    file = parse(GOOD, Path("laminar.toml"))
    assert [layer.name for layer in bottom_up(file)] == ["strokes", "head"]
    assert file.spec.layer[1].train.lr == 0.01
    assert file.spec.layer[1].replacements()["head"].model == "models:head"
    assert parent_of(file.spec, file.spec.layer[1]) == "strokes"


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("epochs = 5", "epoch = 5", "L003", ["laminar.toml:13", "'epoch'", "'epochs'"]),
        ("freeze =", "freez =", "L003", ["laminar.toml:18", "'freez'", "'freeze'"]),
        ("classes = [0, 2", "clases = [0, 2", "L003", ["laminar.toml:6", "'clases'", "'classes'", "data.even"]),
        ("[stack]", "[stak]", "L003", ["laminar.toml:1", "'stak'", "'stack'"]),
        ("epochs = 5", 'epochs = "five"', "L004", ["laminar.toml:13", "train.epochs", "expected a whole number, got text", "'five'"]),
        ('source = "digits"\n', 'source = "digits"\naugment = "flip"\n', "L004", ["augment: expected a table, got text"]),
        ("epochs = 5", "epochs = 0", "L004", ["laminar.toml:13", "epochs", "1 or more"]),
        ("epochs = 3", "epochs = -1", "L004", ["laminar.toml:22", "epochs"]),
        ('"adam"', '"adan"', "L004", ["laminar.toml:13", "'adan'", "'adam'"]),
        ('name = "digits"', 'name = "a b"', "L004", ["laminar.toml:2", "'a b'"]),
        ('name = "head"', 'name = "strokes"', "L004", ["laminar.toml:16", "second layer", "'strokes'"]),
        ('data = "even"\ntrain', 'data = "evn"\ntrain', "L006", ["laminar.toml:12", "'evn'", "'even'"]),
        ('source = "digits"\n', "", "L004", ["data.even", "'source'"]),
        ('model = "models:convnet"\nargs = { channels = [16, 32], classes = 5 }\n', "", "L004", ["laminar.toml:8", "stands on nothing"]),
        ('from = "strokes"', 'from = "head"', "L005", ["laminar.toml:17", "head -> head"]),
        ('from = "strokes"', "from = 3", "L004", ["laminar.toml:17", "from"]),
        ("[stack]", "[stack", "L002", ["laminar.toml:1"]),
        ("[data.even]", "[dtaa.even]", "L003", ["laminar.toml:4", "'dtaa'", "'data'"]),
        ("channels = [16, 32]", "channels = [16, nan]", "L004", ["laminar.toml:11", "args.channels", "finite"]),
        (
            "epochs = 3",
            'epochs = 3\nstrategy = { kind = "pipline" }',
            "L004",
            ["laminar.toml:24", "strategy.kind is 'pipline', but", "sync", "did you mean 'pipeline'?"],
        ),
        (
            "epochs = 3",
            'epochs = 3\nstrategy = { kind = "downpour", mesh = { cols = 2 } }',
            "L003",
            ["laminar.toml:24", "kind = \"downpour\", which has no 'mesh'", 'a key of kind = "branches" or "mesh" or "pipeline"'],
        ),
        ("[layer.train]\nepochs = 3\nlr = 0.01\n", "", "L004", ["'train'"]),
    ],
)
def test_a_mistake_is_named_with_its_line_and_the_nearest_word(old: str, new: str, code: str, said: list[str]) -> None:
    assert old in GOOD
    error = failing(GOOD.replace(old, new, 1))
    assert error.code == code, error
    for word in said:
        assert word in error.message, error.message
    assert error.hint
    assert error.exit_code == 2


def test_a_ring_of_layers_is_shown_whole() -> None:
    text = GOOD.replace('data = "even"\ntrain', 'from = "head"\ndata = "even"\ntrain')
    error = failing(text)
    assert error.code == "L005"
    assert "strokes -> head -> strokes" in error.message


def test_targets_take_what_they_stand_on() -> None:
    file = parse(GOOD + '\n[[layer]]\nname = "other"\nmodel = "m:f"\ndata = "even"\ntrain = { epochs = 1 }\n', Path("laminar.toml"))
    assert [layer.name for layer in bottom_up(file, ["head"])] == ["strokes", "head"]
    with pytest.raises(LaminarError, match="did you mean 'head'") as caught:
        bottom_up(file, ["haed"])
    assert caught.value.code == "L006"


def test_a_layer_with_a_model_and_no_from_starts_anew() -> None:
    file = parse(GOOD + '\n[[layer]]\nname = "other"\nmodel = "m:f"\ndata = "even"\ntrain = { epochs = 1 }\n', Path("laminar.toml"))
    assert parent_of(file.spec, file.spec.layer[2]) is None


def test_the_file_is_found_from_a_folder_below(tmp_path: Path) -> None:
    (tmp_path / "laminar.toml").write_text(GOOD)
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert find(tmp_path / "a" / "b") == tmp_path / "laminar.toml"
    assert read(tmp_path / "laminar.toml").spec.stack.name == "digits"


def test_a_missing_file_names_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(LaminarError) as caught:
        find(tmp_path)
    assert caught.value.code == "L001"
    assert "laminar init" in caught.value.hint


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "laminar.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LaminarError) as caught:
        read(tmp_path / "laminar.toml")
    assert caught.value.code == "L002"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("stack", "name"), 2),
        (("data", "even", "classes"), 6),
        (("layer", 0, "args", "classes"), 11),
        (("layer", 1, "name"), 16),
        (("layer", 1, "replace", "head"), 19),
        (("layer", 1, "train", "lr"), 24),
        (("layer", 1, "nothing"), 15),
    ],
)
def test_lines_are_found(path: tuple[str | int, ...], line: int) -> None:
    assert line_of(GOOD, path) == line


def test_keys_of_this_format_stay_as_they_are(tmp_path: Path) -> None:
    """A changed golden key means that every layer of every user would be trained again: raise key.FORMAT and say so in the changelog."""
    from laminar.stack.key import inputs_of, key_of

    (tmp_path / "laminar.toml").write_text(GOOD.replace('name = "digits"', 'name = "digits"\nenvironment = "ignore"', 1))
    factories = ["def convnet(channels, classes):\n    return nn.Linear(64, classes)", "def head(old, classes):\n    return old\n"]
    (tmp_path / "models.py").write_text("\n\n".join(["from torch import nn", *factories]))
    file = read(tmp_path / "laminar.toml")
    cache = tmp_path / "fingerprints"
    keys = [key_of(inputs_of(file, layer, parent, cache)) for layer, parent in zip(file.spec.layer, (None, "ab" * 32), strict=True)]
    assert keys == [
        "c02aa57b577acf9053a9412804cd584eecdd253d5898f2b3eb4d34250486d462",
        "acf5cee004f3b62a0bf3306a5e48ab546812f183bd8ea2b7ba3fcf1631a3e190",
    ]
