"""Parameters that are described beside the kernel: in `leaky.params.toml` for leaky.c, or by a directive.

    [x]                                          #pragma laminar parameter x in [n][4]
    mode = "in"
    shape = ["n", 4]

The file's lines become directives at the end of the text, so that the text alone says all: it is what is cached, sent and part of a key.
Each has a comment that says where it came from, so that errors name the file's own lines; comments are not part of a key.
A pointer that has a shape there is an array.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from typing import Any, Final, NoReturn, get_args

from laminar.core.errors import LaminarError
from laminar.kernels.language.rules import excerpt
from laminar.kernels.language.tree import At, Mode

_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_WORDS: Final = re.compile(r"([A-Za-z_]\w*)(?:\s+(in|out|inout))?\s*((?:\[[^\[\]]+\]\s*)*)")
_SIZE: Final = re.compile(r"\[([^\[\]]+)\]")
_TOML_PLACE: Final = re.compile(r"^(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)$", re.DOTALL)
_ORIGIN: Final = re.compile(r"^#pragma laminar parameter .*/\* from (.*) \*/$", re.MULTILINE)


@dataclass(frozen=True)
class Described:
    at: At
    mode: Mode | None
    sizes: tuple[str, ...]
    sizes_at: At


@dataclass(frozen=True)
class Origin:
    """Where a directive came from: a file, and lines of it by where they stand: of the parameter, and of its sizes."""

    file: str
    named: tuple[int, int, str]
    sized: tuple[int, int, str]

    def place(self, at: At) -> tuple[At, str]:
        """Of a place in the directive; with a text in which that line is where it is in the file."""
        line, column, text = self.named if at.column == 1 else self.sized
        return At(line, column), "\n" * (line - 1) + text


def with_parameters(text: str, described: str, name: str) -> str:
    """A kernel's text with what the file beside it says. Raises L702."""
    try:
        tables = tomllib.loads(described)
    except tomllib.TOMLDecodeError as error:
        found = _TOML_PLACE.match(str(error))
        lines = described.rstrip("\n").split("\n")
        at = At(int(found[2]), int(found[3])) if found and found[2] else At(len(lines), len(lines[-1]) + 1)
        hint = 'tables such as [x] with mode = "in" and shape = ["n"]'
        raise LaminarError("L702", _told(described, name, at, found[1] if found else str(error)), hint=hint) from None
    lines = [f"#pragma laminar parameter {_line(parameter, table, described, name)}\n" for parameter, table in tables.items()]
    return text if not lines else text.rstrip("\n") + "\n" + "".join(lines)


def origins(text: str) -> dict[int, Origin]:
    """Lines of a kernel's text that came from a file beside it."""
    found: dict[int, Origin] = {}
    for one in _ORIGIN.finditer(text):
        try:
            file, named, sized = json.loads(one[1])
            origin = Origin(str(file), *((int(line), int(column), str(words)) for line, column, words in (named, sized)))
        except (TypeError, ValueError):
            continue  # somebody's own comment
        found[text.count("\n", 0, one.start()) + 1] = origin
    return found


def _line(parameter: str, table: Any, described: str, name: str) -> str:
    def fail(what: str, hint: str, key: str | None = None) -> NoReturn:
        raise LaminarError("L702", _told(described, name, _place(described, parameter, key), what), hint=hint)

    if not isinstance(table, dict) or not _NAME.fullmatch(parameter):
        fail(f"`{parameter}` is no table of a parameter", f'[x], then mode = "in" and shape = ["n"], in {name}')
    unknown = sorted(set(table) - {"mode", "shape"})
    if unknown:
        fail(f"`{unknown[0]}` of `{parameter}` is not known", "mode and shape", unknown[0])
    mode, shape = table.get("mode", ""), table.get("shape", [])
    if mode not in ("", *get_args(Mode)):
        fail(f"the mode of `{parameter}` is {mode!r}", 'mode = "in", "out" or "inout"', "mode")
    if not isinstance(shape, list) or not all(
        isinstance(one, (int, str)) and not isinstance(one, bool) and str(one).strip() for one in shape
    ):
        fail(f"the shape of `{parameter}` is {shape!r}", 'a list of sizes: shape = ["n", 4]', "shape")
    if any(re.search(r"[\[\]\n\\\"']|//|/\*", str(one)) for one in shape):
        fail(f"a size of `{parameter}` has brackets, quotes, comments or lines", 'an expression: shape = ["2 * n"]', "shape")
    words = " ".join([parameter, *([mode] if mode else []), "".join(f"[{one}]" for one in shape)]).strip()
    lines = described.split("\n")
    places = [_place(described, parameter, key) for key in (None, "shape")]
    origin = json.dumps([name, *([at.line, at.column, lines[at.line - 1]] for at in places)], ensure_ascii=False)
    return f"{words} /* from {origin.replace('*/', '* /')} */"


def _told(described: str, name: str, at: At, what: str) -> str:
    return f"{name}:{at.line}:{at.column}: {what}\n{excerpt(described, at)}"


def _place(described: str, parameter: str, key: str | None) -> At:
    """Where a parameter's table begins, or one of its keys stands; if it is written in a way that is not seen here, what is around it."""
    word = rf"[\"']?{re.escape(parameter)}[\"']?"
    table = re.search(rf"^[ \t]*(\[\s*{word}\s*\]|{word}\s*[=.])", described, re.MULTILINE)
    if table is None:
        return At(1, 1)
    begin, offset = table.start(1), table.start(1)
    if key is not None:
        rest = described[begin:]
        end = re.search(r"\n[ \t]*\[", rest) if rest.startswith("[") else None
        found = re.search(rf"[\"']?\b{re.escape(key)}\b[\"']?\s*=", rest[: end.start()] if end else rest)
        offset = begin + found.start() if found else begin
    return At(described.count("\n", 0, offset) + 1, offset - described.rfind("\n", 0, offset))


def directive(words: str, at: At, start: int) -> tuple[str, Described] | None:
    """Of `x in [n][4]`, which begins `start` characters after the place; None if it is not said like that."""
    found = _WORDS.fullmatch(words)
    if found is None:
        return None
    mode: Mode | None = found[2] or None  # type: ignore[assignment]
    sizes_at = At(at.line, at.column + start + found.start(3)) if found[3] else at
    return found[1], Described(at, mode, tuple(one.strip() for one in _SIZE.findall(found[3])), sizes_at)
