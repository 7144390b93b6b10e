"""The rules of the language. Each has a number, so that an error can be looked up in the reference, ref-kernel-language.md."""

from __future__ import annotations

from typing import Final

from laminar.core.errors import LaminarError, docs
from laminar.kernels.language.tree import At

RULES: Final[dict[str, str]] = {
    "K01": "the text is C",
    "K02": "there is a function `kernel`, and its first two parameters are the instance's number and the number of instances",
    "K03": "types are bool, int, long, float, double and arrays of these",
    "K04": "a pointer is the address of a variable, an array or an element, or NULL, and the text tells which",
    "K05": "there are no global and no static variables",
    "K06": "no function calls itself",
    "K07": "nothing is allocated",
    "K08": "control goes by if, for, while, do, break, continue and return",
    "K09": "what a function gives depends on its arguments only",
    "K10": "a statement changes one thing",
    "K11": "names are declared before they are used, once in a block",
    "K12": "types fit",
    "K13": "sizes of arrays are known",
    "K14": "inputs are not written",
    "K15": "a variable has a value before it is used",
    "K16": "all instances reach a barrier, or none",
    "K17": "directives are #define of constants and #pragma laminar",
    "K18": "functions are those of the file and of the table of functions",
    "K19": "shared and local memory is small",
    "K20": "an adjoint takes parameters of the kernel and their gradients",
}

WIDEST: Final = 160  # characters of a line that are shown


class KernelError(LaminarError):
    """A kernel that is not in the language: which rule, where, and what to write instead."""

    def __init__(self, rule: str, at: At, what: str, *, instead: str, text: str, name: str) -> None:
        self.rule, self.at, self.what, self.instead, self.file = rule, at, what, instead, name
        super().__init__("L701", f"{name}:{at.line}:{at.column}: {what} ({rule}: {RULES[rule]})\n{excerpt(text, at)}", hint=instead)

    def to_json(self) -> dict[str, object]:
        return {
            "rule": self.rule,
            "file": self.file,
            "line": self.at.line,
            "column": self.at.column,
            "what": self.what,
            "instead": self.instead,
        }


def excerpt(text: str, at: At) -> str:
    """The line, and a caret under the place. Of a long line what is around the place; what a terminal would take for orders is a dot."""
    lines = text.split("\n")
    line = lines[at.line - 1] if 0 < at.line <= len(lines) else ""
    begin = at.column - 1 - WIDEST // 2 if len(line) > WIDEST and at.column > WIDEST // 2 else 0
    shown = "".join(one if one.isprintable() or one == "\t" else "·" for one in line[begin : begin + WIDEST])
    before, after = "…" * (begin > 0), "…" * (begin + WIDEST < len(line))
    blank = " " * len(before) + "".join("\t" if one == "\t" else " " for one in shown[: at.column - 1 - begin])
    return f"  {before}{shown}{after}\n  {blank}^"


def reference() -> str:
    return docs("ref-kernel-language.md")
