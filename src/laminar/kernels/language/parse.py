"""A kernel's text to the C parser's tree (pycparser), whose positions are those of the text."""

from __future__ import annotations

import re
from typing import Any, Final

from pycparser import c_ast
from pycparser.c_parser import CParser, ParseError

from laminar.kernels.language.text import Define, Text
from laminar.kernels.language.tree import At

_LEAD: Final = "typedef _Bool bool; typedef unsigned long size_t;\n#line 1\n"
_PLACE: Final = re.compile(r":(\d+):(\d+): (.*)$", re.DOTALL)

DEEP: Final = 64  # brackets that the parser can take
_OWN: Final = re.compile(r"\b(__\w+)\s*\(?\s*$")
_ATTRIBUTE: Final = re.compile(r"\b(__\w+)\s*\(\(.*?\)\)\s*$")
_LAST_WORD: Final = re.compile(r"(?:^|[;{}(,])\s*(?:(?:const|static|inline)\s+)*([A-Za-z_]\w*)\s*$")  # where a type may stand
_CAST: Final = re.compile(r"\(\s*(\w+_t|_Float\w+)\s*\)\s*$")
_DECLARED: Final = re.compile(r"\s*(?:(?:const|static|inline|in|out|inout|shared|local)\s+)*([A-Za-z_]\w*)\s+[A-Za-z_]\w*\s*[\[(;,=)]")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_HEAD: Final = re.compile(r"\b(?:void|bool|_Bool|int|long|float|double)\s+\w+\s*\([^(){};]*\)\s*$")
_FOREIGN: Final = {
    **dict.fromkeys(("typeof", "__typeof__", "_Imaginary", "_Decimal32", "_Decimal64", "_Decimal128", "constexpr"), ""),
    **dict.fromkeys(("template", "class", "namespace", "using", "new", "delete", "operator", "public", "private", "virtual"), "C++"),
    **dict.fromkeys(("__global__", "__device__", "__host__", "__shared__", "__constant__", "__forceinline__"), "CUDA"),
    **dict.fromkeys(("__kernel", "__global", "__local", "__constant", "__private", "__read_only", "__write_only"), "OpenCL"),
}
"""Words of other languages, by which; of none: of other versions of C."""
_KEYWORDS: Final = frozenset(
    {"do", "else", "return", "goto", "case", "default", "break", "continue", "sizeof", "const", "static", "inline"}
)
_SPOKEN: Final = {
    "Compound": "a block as a value",
    "CompoundLiteral": "an array as a value",
    "GenericSelection": "_Generic",
    "InitList": "a list of values",
    "NamedInitializer": "a value with a name",
    "Pragma": "a #pragma",
    "StaticAssert": "_Static_assert",
    "Typename": "a type as a value",
}


class _Parser(CParser):  # type: ignore[misc]
    """Tells where it stands, also when it does not know itself."""

    def here(self) -> At | None:
        try:
            token = self._peek()
            return At(token.lineno, token.column) if token is not None else None
        except Exception:  # a parser that failed may be unable to look ahead
            return None


def parse(text: Text) -> c_ast.FileAST:
    parser = _Parser()
    try:
        return parser.parse(_LEAD + text.plain, "kernel")
    except ParseError as error:
        found = _PLACE.search(str(error))
        at = At(int(found[1]), int(found[2])) if found else parser.here() or _end(text)
        what = found[3] if found else str(error).partition(": ")[2]
        _fail_by_name(text, at, what)
        text.fail(
            "K01", at, f"this is not C: {_plain(what)}", "mend the syntax here or just before; kernels are C99 without a preprocessor"
        )
    except RecursionError:
        said = "brackets, operators or conditions are nested too deeply"
        text.fail(
            "K01",
            deepest(text) or parser.here() or _end(text),
            said,
            "names for parts of the expression; a loop, or an array to look it up",
        )


def parse_expression(text: Text, words: Define, what: str) -> c_ast.Node:
    """Of a directive: all of it stands where the directive does."""
    try:
        tree = _Parser().parse(f"int define = ({words.text}\n);", "kernel")
        (declared,) = tree.ext
    except (ParseError, ValueError, RecursionError):
        text.fail("K17", words.at, f"{what} is not an expression: `{words.text[:40]}`", "write a constant or an expression of constants")
    _move(declared.init, words.at)
    return declared.init


def _move(node: c_ast.Node, at: At) -> None:
    if node.coord is not None:
        node.coord.line, node.coord.column = at.line, at.column
    for _, inner in node.children():
        _move(inner, at)


def place(node: Any) -> At:
    coord = getattr(node, "coord", None)
    if coord is None:
        inner = [one for _, one in node.children()] if isinstance(node, c_ast.Node) else []
        return place(inner[0]) if inner else At(1, 1)
    return At(coord.line or 1, coord.column or 1)


def _end(text: Text) -> At:
    lines = text.text.rstrip().split("\n")
    return At(len(lines), len(lines[-1]) + 1)


def deepest(text: Text) -> At | None:
    """The first of the brackets that are nested deepest, if it is they."""
    depth, most, found = 0, 0, 0
    for offset, one in enumerate(text.plain):
        depth += (one in "([{") - (one in ")]}")
        if depth > most:
            most, found = depth, offset
    return At(text.plain.count("\n", 0, found) + 1, found - text.plain.rfind("\n", 0, found)) if most >= DEEP else None


def _fail_by_name(text: Text, at: At, what: str) -> None:
    """Of what the parser stumbles over, that which has a name."""
    lines = text.plain.split("\n")
    before = "\n".join([*lines[max(at.line - 9, 0) : at.line - 1], lines[at.line - 1][: at.column - 1]]) if at.line <= len(lines) else ""
    line = lines[at.line - 1] if at.line <= len(lines) else ""
    token = _NAME.match(line, at.column - 1)
    _fail_by_language(text, at, line)
    if attribute := _ATTRIBUTE.search(lines[at.line - 1][: at.column - 1] if line else ""):
        here = At(at.line, attribute.start() + 1)
        text.fail("K01", here, f"`{attribute[1]}` is a compiler's own word, and not supported", "take it out")
    if own := _OWN.search(before) or _OWN.search(before + (token[0] if token else "")):
        text.fail("K01", at, f"`{own[1]}` is a compiler's own word, and not supported", "take it out")
    if what == "before: {" and _HEAD.search(before):
        text.fail("K01", at, "unexpected `{`: a function within a function is not supported", "define it before the kernel")
    word = _LAST_WORD.search(before) or _CAST.search(before)
    said = what.removeprefix("before: ")
    if word and _NAME.fullmatch(said) and word[1] not in _KEYWORDS:
        text.fail("K03", at, f"unexpected `{said}`: there is no type `{word[1]}`", "bool, int, long, float or double")
    first = _DECLARED.match(line, at.column - 1)
    if first and what in ("Invalid declaration", "Invalid function definition", "Missing type in declaration"):
        text.fail("K03", At(at.line, first.start(1) + 1), f"there is no type `{first[1]}`", "bool, int, long, float or double")


def _fail_by_language(text: Text, at: At, line: str) -> None:
    """Of a word in the line, up to the place."""
    for found in _NAME.finditer(line, 0):
        if found.start() < at.column and found[0] in _FOREIGN:
            instead = f"take it out: kernels are C99, and not {_FOREIGN[found[0]]}" if _FOREIGN[found[0]] else "the type itself"
            text.fail("K01", At(at.line, found.start() + 1), f"`{found[0]}` is not supported", instead)
    if 'extern "' in line:
        text.fail("K01", at, '`extern "C"` is not supported', "take it out: kernels are C99, and not C++")


def spoken(node: c_ast.Node) -> str:
    """What C calls a part of the parser's tree."""
    return _SPOKEN.get(type(node).__name__, type(node).__name__)


def _plain(what: str) -> str:
    if what.startswith("before: "):
        return f"unexpected `{what[8:]}`"
    return what[:1].lower() + what[1:]
