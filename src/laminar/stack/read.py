"""Read: laminar.toml to a StackSpec. Every mistake names file, line and the nearest valid word."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, get_args

import msgspec

from laminar.core.errors import LaminarError, docs
from laminar.core.nearest import did_you_mean, nearest
from laminar.core.toml_words import in_toml_words
from laminar.stack.locate import line_of
from laminar.stack.specs import LayerSpec, StackSpec

FILE = "laminar.toml"
_SHAPE = {"stack": "a table [stack] with a name", "layer": "a table [[layer]]"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_AT = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]|\[\.\.\.\]|\[\"([^\"]*)\"\]")


@dataclass(frozen=True)
class StackFile:
    """A parsed stack file: its spec, its text (for lines and for edits that keep comments) and its folder."""

    path: Path
    text: str
    raw: dict[str, Any]  # as written, before defaults
    spec: StackSpec

    @property
    def root(self) -> Path:
        return self.path.parent

    def where(self, *path: str | int) -> str:
        """`laminar.toml:14`, for messages."""
        line = line_of(self.text, path)
        return f"{self.path.name}:{line}" if line else self.path.name

    def layer_index(self, name: str) -> int:
        return next(i for i, layer in enumerate(self.spec.layer) if layer.name == name)

    def where_layer(self, name: str, *path: str | int) -> str:
        return self.where("layer", self.layer_index(name), *path)

    def to_json(self) -> dict[str, Any]:
        """For another process: the file as it was read, which a user may be editing by now."""
        return {"path": str(self.path), "text": self.text, "raw": self.raw, "spec": msgspec.to_builtins(self.spec)}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> StackFile:
        return cls(Path(told["path"]), told["text"], told["raw"], msgspec.convert(told["spec"], StackSpec))


def find(start: Path | None = None) -> Path:
    """The laminar.toml in `start` or the nearest folder above it."""
    folder = (start or Path.cwd()).resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / FILE).is_file():
            return candidate / FILE
    raise LaminarError("L001", f"no {FILE} in {folder} or above it", hint="laminar init my-stack, or run from a folder that has one")


def read(path: Path) -> StackFile:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LaminarError("L001", f"there is no {path}", hint="laminar init my-stack") from None
    except UnicodeDecodeError as error:
        raise LaminarError("L002", f"{path.name} is not UTF-8 text: {error}", hint="save it as UTF-8") from None
    except OSError as error:
        raise LaminarError("L001", f"{path} cannot be read: {error.strerror}", hint="give yourself read permission") from None
    return parse(text, path)


def parse(text: str, path: Path) -> StackFile:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        where = f"{path.name}:{found[1]}" if found else path.name
        raise LaminarError("L002", f"{where}: not valid TOML: {error}", hint="mend that line; https://toml.io shows the syntax") from None
    return from_raw(raw, text, path)


def from_raw(raw: dict[str, Any], text: str, path: Path) -> StackFile:
    """The tables of a stack file, checked. `text` is what lines are counted in."""
    try:
        spec = msgspec.convert(raw, StackSpec)
    except msgspec.ValidationError as error:
        _explain(error, raw, text, path)
    file = StackFile(path.resolve(), text, raw, spec)
    for steps in _not_finite(raw, []):
        raise LaminarError(
            "L004",
            f"{file.where(*steps)}: {_dotted(steps, raw)} is {_value_at(raw, steps)}, but must be a finite number",
            hint="write a number",
        )
    _check(file)
    return file


def _explain(error: msgspec.ValidationError, raw: dict[str, Any], text: str, path: Path) -> NoReturn:
    message = str(error)
    at = _AT.search(message)
    said = message[: at.start()] if at else message
    steps: list[str | int] = []
    for name, index, key in _STEP.findall(at[1] if at else ""):
        steps.append(int(index) if index else name or key)
    steps = _find_key_of_mapping(steps, at[1] if at else "", raw, said)
    dotted = _dotted(steps, raw)
    if unknown := re.search(r"unknown field `([^`]+)`", said):
        word = unknown[1]
        line = line_of(text, [*steps, word])
        valid = fields_at(steps)
        if kind := _value_at(raw, [*steps, "kind"]):
            _explain_other_kind(word, kind, _type_at(steps), f"{path.name}:{line or '?'}: {_title(steps)}")
        best = nearest(word, valid)
        raise LaminarError(
            "L003",
            f"{path.name}:{line or '?'}: unknown key '{word}' in {_title(steps)}; {did_you_mean(word, valid)}",
            hint=f"write '{best}' instead" if best else f"remove it; {docs('ref-stack-file.md')} lists every key",
        ) from None
    line = line_of(text, steps)
    if missing := re.search(r"missing required field `([^`]+)`", said):
        raise LaminarError(
            "L004",
            f"{path.name}:{line or 1}: {_title(steps)} has no '{missing[1]}', which it needs",
            hint=f"add {_SHAPE.get(missing[1], missing[1] + ' = …')}; {docs('ref-stack-file.md')} lists every key",
        ) from None
    if said.startswith("Invalid value '") and steps[-1:] == ["kind"]:
        _explain_kind(steps, f"{path.name}:{line or 1}: {dotted}", raw)
    value = _value_at(raw, steps)
    written = f" (found {value!r})" if value is not None and not isinstance(value, dict) else ""
    words = re.search(r"Invalid enum value|invalid value", said, re.I)
    options = _options_at(steps) if words else []
    more = f"; {did_you_mean(str(value), options)}" if options else ""
    raise LaminarError(
        "L004",
        f"{path.name}:{line or 1}: {dotted}: {in_toml_words(said)}{written}{more}",
        hint=f"{docs('ref-stack-file.md')} shows every key with its type",
    ) from None


def _explain_other_kind(word: str, kind: str, types: Iterable[Any], where: str) -> None:
    """Raise L003 if `word` is a key that tables of another `kind` have, and not those of this one."""
    structs = [t for t in types if isinstance(t, type) and issubclass(t, msgspec.Struct)]
    having = {str(t.__struct_config__.tag) for t in structs if word in {f.encode_name for f in msgspec.structs.fields(t)}}
    if having and kind not in having:
        kinds = " or ".join(f'"{one}"' for one in sorted(having))
        raise LaminarError(
            "L003",
            f"{where} has kind = \"{kind}\", which has no '{word}': it is a key of kind = {kinds}",
            hint=f"remove {word}, or choose another kind; {docs('ref-stack-file.md')} lists every key",
        ) from None


def _explain_kind(steps: list[str | int], where: str, raw: dict[str, Any]) -> NoReturn:
    """A table whose `kind` is none of those that may stand there."""
    value = _value_at(raw, steps)
    kinds = [str(t.__struct_config__.tag) for t in _type_at(steps[:-1]) if isinstance(t, type) and issubclass(t, msgspec.Struct)]
    best = nearest(str(value), kinds)
    raise LaminarError(
        "L004",
        f"{where} is {value!r}, but must be one of {', '.join(kinds)}" + (f"; did you mean '{best}'?" if best else ""),
        hint=f'write kind = "{best}"' if best else f"{docs('ref-stack-file.md')} shows every key with its type",
    ) from None


def _find_key_of_mapping(steps: list[str | int], pattern: str, raw: dict[str, Any], said: str) -> list[str | int]:
    """msgspec writes `[...]` for the key of a mapping such as [data.NAME]: find which entry it meant by converting each."""
    if "[...]" not in pattern or not pattern.startswith(".data"):
        return [s for s in steps if s != ""]
    from laminar.data.spec import DataSpec

    for name, table in raw.get("data", {}).items():
        try:
            msgspec.convert(table, DataSpec)
        except msgspec.ValidationError as inner:
            if str(inner).split(" - at")[0] == said:
                return ["data", name, *[s for s in steps[1:] if s not in ("", "data")]]
    return [s for s in steps if s != ""]


def _type_at(steps: list[str | int]) -> list[type]:
    """The struct types that may stand at a path of the file."""
    types: list[Any] = [StackSpec]
    for step in steps:
        following: list[Any] = []
        for kind in types:
            for option in _flatten(kind):
                origin_args = get_args(option)
                if isinstance(option, type) and issubclass(option, msgspec.Struct):
                    following += [f.type for f in msgspec.structs.fields(option) if f.encode_name == step]
                elif origin_args:
                    following.append(origin_args[-1])
        types = following
    return [o for t in types for o in _flatten(t) if o is not type(None)]


def _flatten(kind: Any) -> list[Any]:
    import types as kinds
    import typing

    if isinstance(kind, kinds.UnionType) or typing.get_origin(kind) is typing.Union:
        return [o for a in get_args(kind) for o in _flatten(a)]
    if typing.get_origin(kind) is typing.Annotated:
        return _flatten(get_args(kind)[0])
    return [kind]


def fields_at(steps: list[str | int]) -> list[str]:
    """The keys that may stand in the table at a path of the file; none where any may, or none."""
    return [
        f.encode_name for t in _type_at(steps) if isinstance(t, type) and issubclass(t, msgspec.Struct) for f in msgspec.structs.fields(t)
    ]


def _options_at(steps: list[str | int]) -> list[str]:
    import typing

    return [str(a) for t in _type_at(steps) if typing.get_origin(t) is typing.Literal for a in get_args(t)]


def _value_at(raw: Any, steps: list[str | int]) -> Any:
    for step in steps:
        try:
            raw = raw[step]
        except (KeyError, IndexError, TypeError):
            return None
    return raw


def _dotted(steps: list[str | int], raw: dict[str, Any]) -> str:
    """`layer strokes: train.epochs` rather than `layer.0.train.epochs`: people know layers by their names."""
    name = _value_at(raw, [*steps[:2], "name"]) if steps[:1] == ["layer"] else None
    shown, rest = (f"layer {name}: ", steps[2:]) if isinstance(name, str) and len(steps) > 2 else ("", steps)
    return shown + (".".join(str(s) for s in rest) or "the file")


def _not_finite(value: Any, steps: list[str | int]) -> Iterator[list[str | int]]:
    """Where TOML's inf and nan stand: no setting has a use for them, and no key can hold them."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _not_finite(inner, [*steps, key])
    elif isinstance(value, float) and not math.isfinite(value):
        yield steps


def _title(steps: list[str | int]) -> str:
    if not steps:
        return "the file"
    if steps[0] == "layer":
        return "[[layer]]" + "".join(f".{s}" for s in steps[2:])
    return "[" + ".".join(map(str, steps)) + "]"


def _check(file: StackFile) -> None:
    """What types cannot say: names, references between tables, and a bottom for every layer."""
    spec = file.spec
    if not spec.layer:
        raise LaminarError("L004", f"{file.path.name}: there is no [[layer]]", hint="laminar init shows a stack that builds")
    _check_name(file, spec.stack.name, "stack", "name")
    seen: dict[str, int] = {}
    for i, layer in enumerate(spec.layer):
        _check_name(file, layer.name, "layer", i, "name")
        if layer.name in seen:
            raise LaminarError(
                "L004", f"{file.where('layer', i, 'name')}: a second layer is called '{layer.name}'", hint="give each layer its own name"
            )
        seen[layer.name] = i
        if layer.data not in spec.data:
            raise LaminarError(
                "L006",
                f"{file.where('layer', i, 'data')}: layer '{layer.name}' trains on data '{layer.data}', "
                f"but there is no [data.{layer.data}]; {did_you_mean(layer.data, spec.data)}",
                hint=f"add [data.{layer.data}] or name one that is there",
            )
        if i == 0 and layer.model is None and layer.from_ is None:
            raise LaminarError(
                "L004",
                f"{file.where('layer', i)}: the first layer '{layer.name}' has neither 'model' nor 'from': it stands on nothing",
                hint='add model = "laminar:mlp", a factory of yours, or from = "…"',
            )
        if layer.args and layer.model is None:
            raise LaminarError(
                "L004",
                f"{file.where('layer', i, 'args')}: 'args' are for a 'model', and layer '{layer.name}' has none",
                hint="add model = …, or give the arguments to a replaced module: replace = { head = { model = …, args = … } }",
            )


def _check_name(file: StackFile, name: str, *path: str | int) -> None:
    if not _NAME.fullmatch(name):
        raise LaminarError(
            "L004",
            f"{file.where(*path)}: '{name}' is no usable name: letters, digits, '_', '-' and '.' only, a letter or digit first",
            hint="choose another name",
        )


def parent_of(spec: StackSpec, layer: LayerSpec) -> str | None:
    """What a layer stands on, as written or by default: the layer above it in the file, or nothing when it has a model of its own."""
    return parents_of(spec)[layer.name]


def parents_of(spec: StackSpec) -> dict[str, str | None]:
    """What each layer stands on: all at once, for stacks of a thousand layers."""
    names = {layer.name for layer in spec.layer}
    found: dict[str, str | None] = {}
    above: str | None = None
    for layer in spec.layer:
        if layer.from_ is not None:
            own = layer.from_.removeprefix(f"{spec.stack.name}/")  # "digits/strokes" inside the stack digits is its layer strokes
            found[layer.name] = own if own in names else layer.from_
        else:
            found[layer.name] = None if layer.model is not None else above
        above = layer.name
    return found


def bottom_up(file: StackFile, targets: list[str] | None = None) -> list[LayerSpec]:
    """The layers to visit, parents first: all, or `targets` and what they stand on. A cycle is an error."""
    spec = file.spec
    by_name = {layer.name: layer for layer in spec.layer}
    for target in targets or []:
        if target not in by_name:
            raise LaminarError(
                "L006",
                f"there is no layer '{target}' in {file.path.name}; {did_you_mean(target, by_name)}",
                hint="laminar status lists the layers",
            )
    parents = parents_of(spec)
    order: list[LayerSpec] = []
    done: set[str] = set()

    def visit(layer: LayerSpec, below: tuple[str, ...]) -> None:
        if layer.name in below:
            ring = " -> ".join([*below[below.index(layer.name) :], layer.name])
            raise LaminarError(
                "L005",
                f"{file.where_layer(layer.name, 'from')}: the layers stand on each other in a ring: {ring}",
                hint="change one 'from'",
            )
        if layer.name in done:
            return
        parent = parents[layer.name]
        if parent in by_name:
            visit(by_name[parent], (*below, layer.name))
        done.add(layer.name)
        order.append(layer)

    for layer in [by_name[t] for t in targets] if targets else spec.layer:
        visit(layer, ())
    return order
