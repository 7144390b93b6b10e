"""Parameters that are described beside the kernel: in `leaky.params.toml` for leaky.c, or by a directive.

    [x]                                          #pragma laminar parameter x in [n][4]
    mode = "in"
    shape = ["n", 4]

The file's lines become directives at the end of the text, so that the text alone says all: it is what is cached, sent and part of a key.
A pointer that has a shape there is an array.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any, Final, get_args

from laminar.core.errors import LaminarError
from laminar.kernels.language.tree import At, Mode

_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_WORDS: Final = re.compile(r"([A-Za-z_]\w*)(?:\s+(in|out|inout))?\s*((?:\[[^\[\]]+\]\s*)*)")
_SIZE: Final = re.compile(r"\[([^\[\]]+)\]")


@dataclass(frozen=True)
class Described:
    at: At
    mode: Mode | None
    sizes: tuple[str, ...]


def with_parameters(text: str, described: str, name: str) -> str:
    """A kernel's text with what the file beside it says. Raises L702."""
    try:
        tables = tomllib.loads(described)
    except tomllib.TOMLDecodeError as error:
        raise LaminarError("L702", f"{name}: {error}", hint='tables such as [x] with mode = "in" and shape = ["n"]') from None
    lines = [f"#pragma laminar parameter {_line(parameter, table, name)}\n" for parameter, table in tables.items()]
    return text if not lines else text.rstrip("\n") + "\n" + "".join(lines)


def _line(parameter: str, table: Any, name: str) -> str:
    if not isinstance(table, dict) or not _NAME.fullmatch(parameter):
        raise LaminarError(
            "L702", f"{name}: `{parameter}` is no table of a parameter", hint=f'[x], then mode = "in" and shape = ["n"], in {name}'
        )
    unknown = sorted(set(table) - {"mode", "shape"})
    if unknown:
        raise LaminarError("L702", f"{name}: `{unknown[0]}` of `{parameter}` is not known", hint="mode and shape")
    mode, shape = table.get("mode", ""), table.get("shape", [])
    if mode not in ("", *get_args(Mode)):
        raise LaminarError("L702", f"{name}: the mode of `{parameter}` is {mode!r}", hint='mode = "in", "out" or "inout"')
    if not isinstance(shape, list) or not all(
        isinstance(one, (int, str)) and not isinstance(one, bool) and str(one).strip() for one in shape
    ):
        raise LaminarError("L702", f"{name}: the shape of `{parameter}` is {shape!r}", hint='a list of sizes: shape = ["n", 4]')
    if any(re.search(r"[\[\]\n\\]", str(one)) for one in shape):
        raise LaminarError("L702", f"{name}: a size of `{parameter}` has brackets or lines", hint='an expression: shape = ["2 * n"]')
    return " ".join([parameter, *([mode] if mode else []), "".join(f"[{one}]" for one in shape)]).strip()


def directive(words: str, at: At) -> tuple[str, Described] | None:
    """Of `x in [n][4]`; None if it is not said like that."""
    found = _WORDS.fullmatch(words)
    if found is None:
        return None
    mode: Mode | None = found[2] or None  # type: ignore[assignment]
    return found[1], Described(at, mode, tuple(one.strip() for one in _SIZE.findall(found[3])))
