"""A kernel's text made ready for the C parser: comments, directives and the language's own words are blanked, so that all positions stay.

out float y[n]        in, out, inout; global, shared, local: before a type
#define TAPS 9        a constant
#pragma laminar instances rows * cols
#pragma laminar assume 0 <= k && k < n
#pragma laminar parameter x in [n][4]
#include <math.h>     and other headers of the standard library, so that a C compiler takes the file, too
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NoReturn

from laminar.kernels.language.described import Described, Origin, directive, origins
from laminar.kernels.language.rules import KernelError
from laminar.kernels.language.tree import At

WORDS: Final = ("in", "out", "inout", "global", "shared", "local")
PRAGMAS: Final = {
    "instances": "an expression of the sizes",
    "assume": "a condition of the values",
    "contract": "on or off",
    "parameter": "a name, in, out or inout, and sizes",
}
HEADERS: Final = ("math.h", "tgmath.h", "stdbool.h", "stddef.h", "float.h", "limits.h")
_TYPES: Final = "const|volatile|restrict|unsigned|signed|short|char|struct|_Bool|bool|int|long|float|double|void"
_WORD: Final = re.compile(rf"\b({'|'.join(WORDS)})\b(?=\s+(?:{'|'.join(WORDS)}|{_TYPES})\b)")
_COMMENT: Final = re.compile(r"/\*.*?\*/|//(?:\\\n|[^\n])*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_DIRECTIVE: Final = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.MULTILINE)
_DEFINE: Final = re.compile(r"#\s*define\s+([A-Za-z_]\w*)(\(?)\s*(.*)", re.DOTALL)
_PRAGMA: Final = re.compile(r"#\s*pragma\s+laminar\s+(\w+)\s*(.*)", re.DOTALL)
_INCLUDE: Final = re.compile(r"#\s*include\s*[<\"]([^>\"]*)[>\"]\s*")
_LEAD: Final = re.compile(rf"((?:\b(?:{'|'.join(WORDS)}|const|volatile|restrict)\b\s*)+)$")


@dataclass(frozen=True)
class Define:
    at: At
    text: str


@dataclass
class Text:
    """`plain` is what the parser reads."""

    name: str
    text: str
    plain: str = ""
    worded: str = ""  # without comments, with the language's words
    defines: dict[str, Define] = field(default_factory=dict)
    pragmas: dict[str, str] = field(default_factory=dict)
    pragma_at: dict[str, At] = field(default_factory=dict)
    assumed: list[Define] = field(default_factory=list)  # conditions
    described: dict[str, Described] = field(default_factory=dict)  # parameters, by name
    origins: dict[int, Origin] = field(default_factory=dict)  # lines that came from a file beside it

    def fail(self, rule: str, at: At, what: str, instead: str) -> NoReturn:
        origin = self.origins.get(at.line)
        place, text = origin.place(at) if origin else (at, self.text)
        raise KernelError(rule, place, what, instead=instead, text=text, name=origin.file if origin else self.name)

    def words_before(self, at: At) -> tuple[str, ...]:
        """The language's words that stand before a type."""
        lines = self.worded.split("\n")
        before = "\n".join(lines[: at.line - 1]) + "\n" + lines[at.line - 1][: at.column - 1]
        found = _LEAD.search(before)
        return tuple(one for one in found[1].split() if one in WORDS) if found else ()


def prepared(source: str, name: str) -> Text:
    text = source.removeprefix("\ufeff").replace("\r\n", "\n")  # as Windows saves it
    one = Text(name, text, origins=origins(text))
    if "\0" in text:
        one.fail("K01", _at(text, text.index("\0")), "a byte of zero in the text", "save the file as plain text")
    open_comment = _unclosed(text)
    if open_comment is not None:
        one.fail("K01", _at(text, open_comment), "a comment that does not end", "end it with */")
    bare = _COMMENT.sub(lambda found: _blank(found[0]) if found[0][0] == "/" else found[0], text)
    bare = _DIRECTIVE.sub(lambda found: _directive(one, found), bare)
    bare = bare.replace("\\\n", " \n")  # lines that go on
    one.worded = bare
    one.plain = _WORD.sub(lambda found: _blank(found[0]), bare)
    return one


def _directive(one: Text, found: re.Match[str]) -> str:
    words = found[0].replace("\\\n", " ").strip()
    at = _at(one.text, found.start() + len(found[0]) - len(found[0].lstrip()))
    if define := _DEFINE.fullmatch(words):
        name, bracket, value = define[1], define[2], define[3].strip()
        if bracket and words[define.start(2) - 1] not in " \t":
            one.fail("K17", at, f"`{name}` is a macro with arguments", f"write a function: `float {name}(float a) {{ … }}`")
        if not value:
            one.fail("K17", at, f"`{name}` is defined as nothing", f"write a constant: `#define {name} 1`")
        if name in one.defines and one.defines[name].text != f"{bracket}{value}":
            before = one.defines[name]
            said = f"`{name}` is defined twice; in line {before.at.line} as `{before.text[:40]}`"
            one.fail("K17", at, said, "one of them, or another name")
        one.defines[name] = Define(at, f"{bracket}{value}")
    elif pragma := _PRAGMA.fullmatch(words):
        if pragma[1] not in PRAGMAS:
            one.fail("K17", at, f"unknown setting `{pragma[1]}`", f"one of {', '.join(PRAGMAS)}, or leave the line out")
        if pragma[1] == "parameter":
            _describe(one, pragma[2].strip(), at, pragma.start(2) if "\n" not in found[0] else 0)
        elif pragma[1] == "assume":
            one.assumed.append(Define(at, pragma[2].strip()))
        elif pragma[1] in one.pragmas and one.pragmas[pragma[1]] != pragma[2].strip():
            one.fail("K17", at, f"`{pragma[1]}` is said twice; first in line {one.pragma_at[pragma[1]].line}", "one of them")
        else:
            one.pragmas[pragma[1]], one.pragma_at[pragma[1]] = pragma[2].strip(), at
    elif not ((include := _INCLUDE.fullmatch(words)) and include[1] in HEADERS):
        shown = words.split("\n")[0][:40]
        one.fail("K17", at, f"`{shown}` is a directive that kernels do not have", "take the line out; constants are `#define NAME 1`")
    return _blank(found[0])


def _describe(one: Text, words: str, at: At, start: int) -> None:
    found = directive(words, at, start)
    if found is None:
        one.fail("K17", at, f"a parameter is described as `{words[:40]}`", "`parameter x in [n]`: a name, in, out or inout, and sizes")
    name, described = found
    if name in one.described:
        one.fail("K17", at, f"`{name}` is described twice", "one of them")
    one.described[name] = described


def _blank(text: str) -> str:
    return "".join(one if one == "\n" else " " for one in text)


def _unclosed(text: str) -> int | None:
    rest = _COMMENT.sub(lambda found: "." * len(found[0]), text)
    found = rest.find("/*")
    return found if found >= 0 else None


def _at(text: str, offset: int) -> At:
    return At(text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1)
