"""Choosing a strategy on the command line: for all layers of a build, in the place of what the stack file says.

    --strategy averaging --workers 4
    --strategy downpour:shards=3,n_push=8 --compress dgc:sparsity=0.99

A name, and after a colon settings as the stack file has them. What is not given is as written there, layer by layer.
"""

from __future__ import annotations

import tomllib
import typing
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.core.toml_words import in_toml_words
from laminar.stack.read import StackFile, bottom_up
from laminar.train import compression
from laminar.train.outer_steps import outer_step
from laminar.train.splitting import SplitStrategy
from laminar.train.strategies import BY_NAME, AnyStrategy, ManySpec
from laminar.train.strategies import strategy as strategy_of

COMPRESSIONS = typing.get_args(compression.Kind)
# Tables that a setting may be, by their kinds.
_TABLES: Mapping[str, Mapping[str, type[msgspec.Struct]]] = {
    "compress": {name: type(compression.compression(name)) for name in COMPRESSIONS},
    "outer": {name: type(outer_step(name)) for name in ("average", "nesterov")},
}
AUTO = "auto"  # chosen when a layer is trained (plan/trials/auto.py)


def with_strategy(
    file: StackFile,
    strategy: str | None,
    workers: int | None,
    *,
    elastic: bool = False,
    fewest: int | None = None,
    compress: str | None = None,
    evaluator: bool = False,
    targets: list[str] | None = None,
) -> StackFile:
    """The same stack, trained so. Workers alone mean sync where no strategy is written.

    `targets`: layers that are asked for. One that is neither among them nor below them, and cannot be trained so, stays as it is.
    """
    name, settings = split_words("--strategy", strategy, [*BY_NAME, AUTO]) if strategy is not None else (None, {})
    counts = ("--workers", str(workers)) if fewest is None else ("--elastic", f"{fewest}:{workers}")
    for key, asked, (option, value) in (
        ("workers", workers, counts),
        ("fewest", fewest, counts),
        ("compress", compress, ("--compress", compress)),
    ):
        if asked is not None and settings.get(key, asked) != asked:
            raise LaminarError(
                "L008",
                f"--strategy {strategy} has {key} = {settings[key]}, but {option} is {value}",
                hint=f"leave one of the two out: {key} in --strategy, or {option}",
            )
    settings |= {"workers": workers} if workers is not None else {}
    settings |= {"elastic": True} if elastic else {}
    settings |= {"fewest": fewest} if fewest is not None else {}
    settings |= {"evaluator": True} if evaluator else {}
    if compress is not None:
        small, more = split_words("--compress", compress, COMPRESSIONS)
        _check_keys(f"--compress {small}", more, type(compression.compression(small)))  # type: ignore[arg-type]
        settings["compress"] = {"kind": small, **more} if more else small
    if name is not None:
        _check_keys(f"--strategy {name}", settings, BY_NAME[name])
    layers, chosen, visited = [], False, {layer.name for layer in bottom_up(file, targets)}
    for layer in file.spec.layer:
        written = strategy_of(layer.train.strategy)
        many = isinstance(written, ManySpec | SplitStrategy)
        kind = name or (written.kind if many else "sync" if workers is not None else None)
        if kind is None:
            layers.append(layer)
            continue
        chosen = True
        said = (msgspec.to_builtins(written) if kind == written.kind else {}) | {"kind": kind} | settings
        try:
            train = msgspec.structs.replace(layer.train, strategy=msgspec.convert(said, AnyStrategy))
        except msgspec.ValidationError as error:
            raise _explained(f"--strategy {kind}", error, said) from None
        except ValueError as error:
            if layer.name not in visited:
                layers.append(layer)
                continue
            raise LaminarError(
                "L008", f"layer {layer.name}: {error}", hint=f"--strategy {kind} with other settings, or edit its train"
            ) from None
        layers.append(msgspec.structs.replace(layer, train=train))
    if not chosen:
        given = "--compress" if compress is not None else "--evaluator" if evaluator else "--elastic"
        raise LaminarError(
            "L008",
            f"{given} is for several workers, and every layer of {file.path.name} is trained by one",
            hint=f"{given} with --workers 2",
        )
    return replace(file, spec=msgspec.structs.replace(file.spec, layer=layers))


def split_words(option: str, text: str, names: typing.Sequence[str]) -> tuple[str, dict[str, Any]]:
    """`name:key=value,key=value`. Values are TOML; what is none is a word."""
    name, colon, rest = text.partition(":")
    if name not in names:
        raise LaminarError("L008", f"{option}: there is no '{name}'; {did_you_mean(name, names)}", hint=f"{option} {' | '.join(names)}")
    settings: dict[str, Any] = {}
    for pair in _pairs(rest) if colon else []:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not key or not equals or not value:
            raise LaminarError(
                "L008",
                f"{option} {text}: '{pair}' is no setting",
                hint=f"write key=value, several with commas: {option} {name}:key=value,…",
            )
        settings[key] = _value(value)
    return name, settings


def _pairs(text: str) -> list[str]:
    """What commas part, but those inside of brackets."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _check_keys(what: str, given: Mapping[str, Any], spec: type[msgspec.Struct]) -> None:
    valid = [field.encode_name for field in msgspec.structs.fields(spec)]
    for key in given:
        if key not in valid:
            hint = f"its settings: {', '.join(valid)}" if valid else "it has no settings"
            raise LaminarError("L008", f"{what} has no setting '{key}'; {did_you_mean(key, valid)}", hint=hint)


def _explained(what: str, error: msgspec.ValidationError, said: Mapping[str, Any]) -> LaminarError:
    """What msgspec says of a value, with the value and what could stand there."""
    message, _, at = str(error).partition(" - at `$.")
    path = at.rstrip("`").split(".")
    message = in_toml_words(message).removeprefix("strategy.")
    if not message.startswith(("invalid", "expected")):  # it has the value in it
        return LaminarError("L008", f"{what}: {message}", hint="laminar build --help")
    if "[" in at:  # in a table whose keys are the user's own, or in a list: which of them is not said
        where = at.rstrip("`").replace("[...]", "")
        return LaminarError("L008", f"{what}: {where} has a value of another kind: {message}", hint="leave it out, or give another value")
    spec: type[msgspec.Struct] | None = BY_NAME[said["kind"]]
    found: Any = said
    for key in path[:-1]:
        found, kinds = found[key], _TABLES.get(key, {})
        spec = None if path[-1] == "kind" else kinds.get(found.get("kind"))
    found = found.get(path[-1])
    words = [] if spec is None else _words(next(field.type for field in msgspec.structs.fields(spec) if field.encode_name == path[-1]))
    if path[-1] == "kind" and path[0] in _TABLES:
        words = list(_TABLES[path[0]])
    wanted = (
        f"it must be one of {', '.join(words)}; {did_you_mean(str(found), words)}" if message.startswith("invalid") and words else message
    )
    return LaminarError("L008", f"{what}: {'.'.join(path)} is {found!r}: {wanted}", hint="leave it out, or give another value")


def _words(kind: Any) -> list[str]:
    """The words that may stand for a field of this type."""
    if typing.get_origin(kind) is typing.Literal:
        return [str(word) for word in typing.get_args(kind)]
    return [word for part in typing.get_args(kind) for word in _words(part)]
