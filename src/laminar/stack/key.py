"""Key: everything that determines the training of a layer, as JSON, and its sha256.

In it: the parent's id (never its name, so an equal parent stops the cascade), the factory with the source it reaches, arguments,
freeze and replace, the data's content and order, the recipe with its seed and dtype, and torch's version as far as the stack's
`environment` says. Not in it: paths, hosts, times, threads, and the layer's own name.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from laminar.core import digest, search_path
from laminar.core.closure import Reached, closure, definitions, module_file, reach, takes_any_keyword
from laminar.core.declared import declared
from laminar.core.errors import LaminarError, docs
from laminar.core.nearest import did_you_mean, nearest
from laminar.data.fingerprint import fingerprint
from laminar.data.remember import Memory
from laminar.model.factory import BUILTIN, BUILTINS, no_builtin
from laminar.stack.read import StackFile
from laminar.stack.seen import Seen
from laminar.stack.specs import LayerSpec

FORMAT = 2
Code = Callable[[str, Path, str], Reached]  # as code_of


def inputs_of(file: StackFile, layer: LayerSpec, parent: str | None, fingerprints: Path, *, code: Code | None = None) -> dict[str, Any]:
    """The inputs of a layer's key, given the id of its parent. Reads sources and stats data files; imports no torch.

    `code`: for who asks of many variants at once, `code_of` with a memory.
    """
    name, code = layer.name, code or code_of

    libraries: set[str] = set()

    def made(factory: str, args: dict[str, Any], *at: str) -> dict[str, Any]:
        reached = code(factory, file.root, file.where_layer(name, *at))
        libraries.update(reached.libraries)
        order = order_of(args, top=sees_order(factory, file.root))
        return {"factory": factory, "args": normalised(args), **({"order": order} if order else {}), "code": reached.sources}

    model = None if layer.model is None else made(layer.model, layer.args, "model")
    replaced = {path: made(to.model, to.args, "replace", path) for path, to in sorted(layer.replacements().items())}
    data = file.spec.data[layer.data]
    try:
        content = fingerprint(data, file.root, fingerprints)
    except LaminarError as error:
        raise located(error, file.where("data", layer.data, _field_in(error)), f"data.{layer.data}") from error
    said = {}
    if layer.reads or layer.env:
        said["declared"] = declared(layer.reads, layer.env, file.root, Seen(file.root, Memory(fingerprints)).digest_of)
    return {
        **said,
        "format": FORMAT,
        "parent": parent,
        "model": model,
        "freeze": sorted(set(layer.freeze)),
        "replace": replaced,
        "data": content,
        "train": layer.train.key_fields(),
        "environment": environment(file.spec.stack.environment, libraries),
    }


def key_of(inputs: dict[str, Any]) -> str:
    return digest.of_json(inputs)


def code_of(factory: str, root: Path, where: str) -> Reached:
    """What `module:name` reaches: of the user's own code, or of Laminar's own models for `laminar:…`."""
    module, colon, symbol = factory.partition(":")
    if not colon or not module or not symbol:
        raise LaminarError(
            "L004",
            f"{where}: '{factory}' names no factory: expected 'module:function', such as 'models:convnet'",
            hint=docs("ref-stack-file.md"),
        )
    if module == BUILTIN:
        if symbol not in BUILTINS:
            error = no_builtin(symbol)
            raise LaminarError(error.code, f"{where}: {error.message}", hint=error.hint)
        spec = importlib.util.find_spec("laminar.model")
        assert spec is not None and spec.origin is not None
        return Reached(closure(BUILTINS[symbol], symbol, Path(spec.origin).parent), frozenset())
    file = module_file(module, root)
    if file is None:
        known = [p.stem for p in root.glob("*.py")] + [BUILTIN]
        raise LaminarError(
            "L201",
            f"{where}: '{factory}' needs {module.replace('.', '/')}.py beside {root.name}/laminar.toml, and it is not there; "
            + did_you_mean(module, known),
            hint=f"create {module.replace('.', '/')}.py with a function {symbol}, or use a built-in such as laminar:mlp",
        )
    names = definitions(module, root)
    if names is not None and symbol not in names and not (file.name == "__init__.py" and module_file(f"{module}.{symbol}", root)):
        shown = file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
        best = nearest(symbol, names)
        raise LaminarError(
            "L201",
            f"{where}: there is no '{symbol}' in {shown}, which '{factory}' asks for; {did_you_mean(symbol, names)}"
            + (f" ({shown}:{names[best]})" if best and names[best] else ""),
            hint=f"write '{module}:{best}', or define `def {symbol}(…)` in {shown}" if best else f"define `def {symbol}(…)` in {shown}",
        )
    return reach(module, symbol, root)


def normalised(value: Any) -> Any:
    """Arguments as plain JSON, so that equal values give equal keys however they were written."""
    return msgspec.to_builtins(value)


def order_of(args: dict[str, Any], *, top: bool) -> list[str]:
    """The order of keys in the tables of `args`, which a factory sees, as paths; empty where it is that of the alphabet."""
    paths: list[str] = []

    def walk(value: Any, path: str, counts: bool) -> bool:
        """Whether there is another order than the alphabet's."""
        if isinstance(value, list):
            others = [walk(item, f"{path}[{i}]", True) for i, item in enumerate(value)]
            return any(others)
        if not isinstance(value, dict):
            return False
        other = counts and list(value) != sorted(value)
        for key, inner in value.items() if counts else sorted(value.items()):
            here = f"{path}.{key}" if path else str(key)
            if counts:
                paths.append(here)
            other = walk(inner, here, True) or other
        return other

    return paths if walk(args, "", top) else []


def in_order(value: Any, order: list[str], path: str = "") -> Any:
    """Arguments that a record has in alphabetical order, in the order that they were written in."""
    if isinstance(value, list):
        return [in_order(item, order, f"{path}[{i}]") for i, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    place = {name: number for number, name in enumerate(order)}
    keys = sorted(value, key=lambda key: place.get(f"{path}.{key}" if path else str(key), -1))
    return {key: in_order(value[key], order, f"{path}.{key}" if path else str(key)) for key in keys}


def sees_order(factory: str, root: Path) -> bool:
    """May the factory see in which order its arguments are written? Only by `**`."""
    module, _, symbol = factory.partition(":")
    return module != BUILTIN and takes_any_keyword(module, symbol, root)


@functools.cache
def _torch_version() -> str:
    """Read from torch's version.py, which is a hundred times faster than asking the metadata; without torch there is no version."""
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        with contextlib.suppress(OSError):
            found = re.search(r"^__version__ = ['\"](.+)['\"]", Path(spec.origin).with_name("version.py").read_text(), re.M)
            if found:
                return found[1]
    from importlib import metadata

    return metadata.version("torch")


def environment(policy: str, libraries: Iterable[str] = ()) -> dict[str, Any]:
    """Versions as far as `policy` says: of torch, and of the libraries that the user's own code imports."""
    if policy == "ignore":
        return {}
    torch, versions = _torch_version(), {name: search_path.version(name) for name in sorted(libraries)}
    if policy == "strict":
        said = {"torch": torch, "python": ".".join(map(str, sys.version_info[:3])), "platform": sys.platform}
        return {**said, **({"libraries": versions} if versions else {})}
    versions = {name: text if text == search_path.ABSENT else ".".join(text.split(".")[:2]) for name, text in versions.items()}
    return {"torch": ".".join(torch.split(".")[:2]), **({"libraries": versions} if versions else {})}


def located(error: LaminarError, where: str, what: str) -> LaminarError:
    """The same error, saying which line of the stack file led to it."""
    return LaminarError(error.code, f"{where}: {what}: {error.message}", hint=error.hint)


def _field_in(error: LaminarError) -> str:
    """Which key of a [data.…] table an error speaks of, by its first word; the source where it speaks of none."""
    first = error.message.split(" ", 1)[0].strip("`':")
    return first if first in ("classes", "split", "limit", "size", "args", "grey", "augment") else "source"


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """`{"train.lr": 0.01, …}`: the inputs as rows that can be compared and shown."""
    if isinstance(value, dict) and value:
        rows: dict[str, Any] = {}
        for key, item in value.items():
            rows.update(flat(item, f"{prefix}.{key}" if prefix else str(key)))
        return rows
    return {prefix: value}


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """(field, from, to) of every input that differs; a field that only one side has gives None on the other."""
    before, after = flat(old), flat(new)
    return [(f, before.get(f), after.get(f)) for f in sorted({*before, *after}) if before.get(f) != after.get(f)]
