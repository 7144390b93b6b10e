"""Axes: what a name in a sweep changes in the stack. Well-known names, any setting of `train`, any argument of the model, any dotted path.

    workers, strategy, compress      how many share the training, and how
    neurons, depth                   width of every hidden module, and how many there are (`args.hidden`)
    samples                          training samples (`limit` of the layer's data)
    on                               where workers run (local, ray, spark://…): nothing of the stack
    batch, epochs, lr, threads, …    whatever may be written under `train`
    hidden, channels, dropout, …     whatever is written under `args` of the layer, or of a module it replaces
    layer.base.train.epochs          a path in laminar.toml; a path that begins with train, args or replace is of the layer that varies
    data.odd.split.seed

Everything is set in the tables as they are written, so a variant is checked by the same reader as a stack file.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean, nearest
from laminar.stack.read import StackFile, fields_at
from laminar.train.recipe import Recipe

RECIPE: Final = tuple(field.encode_name for field in msgspec.structs.fields(Recipe))
WIDTH: Final = 128  # of a hidden module, where none is written: as laminar:mlp has it
ALIASES: Final = {"hidden_layers": "depth", "cores": "workers", "learning_rate": "lr", "width": "neurons", "limit": "samples"}
WORDS: Final = {  # how a value is told: by its unit after it, or its name before it
    "workers": ("{} worker", "{} workers"),
    "threads": ("{} thread", "{} threads"),
    "neurons": ("{} neuron", "{} neurons"),
    "depth": ("{} hidden layer", "{} hidden layers"),
    "epochs": ("{} epoch", "{} epochs"),
    "samples": ("{} sample", "{} samples"),
}
PLACE: Final = "on"
SPECIAL: Final = ("workers", "strategy", "compress", "neurons", "depth", "samples", PLACE)
_ORDER: Final = ("strategy", "compress", "depth", "neurons")  # these first: the others change what they have set
Table = dict[str, Any]


def plain_name(name: str) -> str:
    return ALIASES.get(name.replace(" ", "_").replace("-", "_"), name)


def path_of(name: str, file: StackFile, layer: str) -> str:
    """Where in the stack an axis of this name is. L017, with the nearest name, when it is nowhere."""
    name = plain_name(name)
    at = f"layer.{layer}"
    if name == PLACE:
        return PLACE
    if name in ("workers", "compress"):
        return f"{at}.train.strategy.{name}"
    if name in ("neurons", "depth"):
        return f"{at}.{_hidden(file, layer)}"
    if name == "samples":
        return f"data.{_layer_table(file.raw, layer)['data']}.limit"
    if name in RECIPE:
        return f"{at}.train.{name}"
    if "." not in name:
        found = next((place for place in _argument_tables(file.raw, layer) if name in _get(file.raw, layer, place)), None)
        if found is not None:
            return f"{at}.{'.'.join(found)}.{name}"
        raise _unknown(name, file, layer)
    path = f"{at}.{name}" if name.split(".")[0] in ("train", "args", "replace", "freeze", "model", "data") and not _is_data(name) else name
    _check_path(name, path, file, layer)
    return path


def _is_data(name: str) -> bool:
    return name.startswith("data.")


def _check_path(name: str, path: str, file: StackFile, layer: str) -> None:
    steps: list[str | int] = [*path.split(".")]
    if steps[0] == "layer":
        known = [one.name for one in file.spec.layer]
        # names of layers may have dots in them
        owner = max((one for one in known if path.startswith(f"layer.{one}.")), key=len, default=None)
        if owner is None:
            given = str(steps[1]) if len(steps) > 1 else ""
            raise LaminarError(
                "L017",
                f"axis '{name}': there is no layer '{given}'; {did_you_mean(given, known)}",
                hint=f"layer.{nearest(given, known) or known[0]}.…",
            )
        steps = ["layer", file.layer_index(owner), *path.removeprefix(f"layer.{owner}.").split(".")]
    elif steps[0] == "data" and (len(steps) < 3 or steps[1] not in file.spec.data):
        raise LaminarError(
            "L017",
            f"axis '{name}': there is no data set '{'.'.join(map(str, steps[1:2]))}'; "
            f"{did_you_mean(str(steps[1]) if len(steps) > 1 else '', file.spec.data)}",
            hint="write data.NAME.setting, such as " + ", ".join(f"data.{one}.limit" for one in file.spec.data),
        )
    elif steps[0] not in ("data", "stack"):
        raise _unknown(name, file, layer)
    for number, step in enumerate(steps):
        valid = fields_at(steps[:number])
        if valid and isinstance(step, str) and step not in valid:
            best = nearest(step, valid)
            right = ".".join([*map(str, path.split(".")[: len(path.split(".")) - len(steps) + number]), best or "…"])
            raise LaminarError(
                "L017", f"axis '{name}': there is no '{step}' there; {did_you_mean(step, valid, limit=40)}", hint=f"write {right}"
            )


def known_names(file: StackFile, layer: str) -> list[str]:
    arguments = [key for place in _argument_tables(file.raw, layer) for key in _get(file.raw, layer, place)]
    return list(dict.fromkeys([*SPECIAL, *(name for name in RECIPE if name != "strategy"), *arguments]))


def _unknown(name: str, file: StackFile, layer: str) -> LaminarError:
    valid = known_names(file, layer)
    best = nearest(name, [*valid, *ALIASES])
    return LaminarError(
        "L017",
        f"unknown axis '{name}'; {did_you_mean(name, [*valid, *(ALIASES if best in ALIASES else ())], limit=40)}",
        hint=f"write {best}" if best else f"name a setting of train, an argument of the model, or a path such as layer.{layer}.train.batch",
    )


# setting


def put(raw: Table, layer: str, settings: Mapping[str, Any], paths: Mapping[str, str]) -> Table:
    """The tables of a stack with these settings (axis name: value) at their paths; `raw` stays as it is."""
    raw = copy.deepcopy(raw)
    names = [name for name in settings if name != PLACE]
    names.sort(key=lambda name: _ORDER.index(plain) if (plain := plain_name(name)) in _ORDER else len(_ORDER))
    for name in names:
        setter = _SETTERS.get(plain_name(name))
        if setter is not None:
            setter(raw, layer, settings[name])
        else:
            _put_at(raw, paths[name], settings[name])
    return raw


def _workers(raw: Table, layer: str, value: Any) -> None:
    """One worker is one process, unless a strategy with workers is written; several mean sync there."""
    train = _layer_table(raw, layer)["train"]
    written = train.get("strategy")
    kind = written["kind"] if isinstance(written, dict) else written
    if kind in (None, "solo"):
        train["strategy"] = "solo" if value == 1 else {"kind": "sync", "workers": value}
    else:
        train["strategy"] = {**(written if isinstance(written, dict) else {"kind": kind}), "workers": value}


def _compress(raw: Table, layer: str, value: Any) -> None:
    train = _layer_table(raw, layer)["train"]
    written = train.get("strategy") or "sync"
    train["strategy"] = {**(written if isinstance(written, dict) else {"kind": written}), "compress": value}


def _neurons(raw: Table, layer: str, value: Any) -> None:
    arguments = _arguments(raw, layer)
    arguments["hidden"] = [value] * max(1, len(arguments.get("hidden", [0])))


def _depth(raw: Table, layer: str, value: Any) -> None:
    arguments = _arguments(raw, layer)
    widths = arguments.get("hidden") or [WIDTH]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise LaminarError("L016", f"depth is {value!r}, but must be a whole number of hidden layers", hint="depth = [1, 2, 4]")
    arguments["hidden"] = [*widths, *[widths[-1]] * value][:value]


def _samples(raw: Table, layer: str, value: Any) -> None:
    raw["data"][_layer_table(raw, layer)["data"]]["limit"] = value


_SETTERS: Final[dict[str, Callable[[Table, str, Any], None]]] = {
    "workers": _workers,
    "compress": _compress,
    "neurons": _neurons,
    "depth": _depth,
    "samples": _samples,
}


def _put_at(raw: Table, path: str, value: Any) -> None:
    here: Any = raw
    if path.startswith("layer."):
        here = next(one for one in sorted(raw["layer"], key=lambda one: -len(one["name"])) if path.startswith(f"layer.{one['name']}."))
        path = path.removeprefix(f"layer.{here['name']}.")
    *steps, last = path.split(".")
    for step in steps:
        inner = here.get(step)
        if isinstance(inner, str):  # `strategy = "sync"`, `replace.head = "laminar:head"`: the short form of a table
            inner = {"kind" if step in ("strategy", "schedule", "compress") else "model": inner}
        here[step] = inner if isinstance(inner, dict) else {}
        here = here[step]
    here[last] = value


def _layer_table(raw: Table, layer: str) -> Table:
    found: Table = next(one for one in raw["layer"] if one["name"] == layer)
    return found


def _argument_tables(raw: Table, layer: str) -> list[tuple[str, ...]]:
    """Where arguments of the layer's own model, and of modules it replaces, are or could be."""
    table = _layer_table(raw, layer)
    own: list[tuple[str, ...]] = [("args",)] if "model" in table else []
    return own + [("replace", path, "args") for path in table.get("replace", {})]


def _get(raw: Table, layer: str, place: tuple[str, ...]) -> Table:
    here: Any = _layer_table(raw, layer)
    for step in place:
        here = here.get(step, {}) if isinstance(here, dict) else {}
    return here if isinstance(here, dict) else {}


def _hidden(file: StackFile, layer: str) -> str:
    places = _argument_tables(file.raw, layer)
    if not places:
        raise LaminarError(
            "L017",
            f"neurons and depth: layer '{layer}' has neither a model nor a replaced module whose width could change",
            hint="name a layer that has one: layer = …",
        )
    return ".".join([*places[0], "hidden"])


def _arguments(raw: Table, layer: str) -> Table:
    """The table that `hidden` stands in; made where it is not written."""
    here = _layer_table(raw, layer)
    for step in _argument_tables(raw, layer)[0]:
        inner = here.get(step)
        here[step] = {"model": inner} if isinstance(inner, str) else inner if isinstance(inner, dict) else {}
        here = here[step]
    return here


def told(name: str, value: Any) -> str:
    """A value in words: `128 neurons`, `lr 0.01`, `downpour(workers=6)`."""
    plain = plain_name(name)
    if plain in WORDS:
        one, several = WORDS[plain]
        return (one if value == 1 else several).format(f"{value:,}" if isinstance(value, int) else value)
    if plain == "strategy" or (plain == "compress" and isinstance(value, dict)):
        return _kind(value)
    if plain in ("optimizer", "strategy"):
        return str(value)
    short = (
        plain
        if plain in RECIPE or "." not in plain
        else ".".join(part for part in plain.split(".") if part not in ("layer", "train", "args"))
    )
    return f"{short} {_value(value)}"


def _kind(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    rest = ", ".join(f"{key}={_kind(inner)}" for key, inner in value.items() if key != "kind")
    return f"{value.get('kind', '')}({rest})" if rest else str(value.get("kind", ""))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:,}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float) and len(repr(value)) > 10:  # nobody wrote it: a search proposes 17 digits; settings keep them all
        return f"{value:.6g}"
    return _kind(value)
