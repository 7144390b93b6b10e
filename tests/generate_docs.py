"""The generated pages: docs/ref-cli.md (from the verbs) and docs/errors/README.md (from the catalogue).

python -m tests.generate_docs            writes them (`make docs`)
python -m tests.generate_docs --check    says which of them are not what would be written

The command reference is made from what `--help` is made from, the signature and docstring of each verb, and not from its text: that
differs from one version of typer to the next.
"""

from __future__ import annotations

import inspect
import sys
import typing
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

from laminar.cli import verbs
from laminar.core.errors import CATALOGUE, LaminarError

DOCS = Path(__file__).parents[1] / "docs"

CLI = """\
# Reference: the command line

Made by `make docs` from what `laminar VERB --help` says.

Results go to stdout, progress and remarks to stderr. Verbs that list or report take `--json`; [ref-json.md](ref-json.md) has the shapes.

A REF is a layer of the current stack (`head`), of any stack in the store (`digits/head`), an earlier one (`head~1`, `head~2`), a tag
(`base:v1`), four or more digits of an id, or `name@sha256:ID`. A REMOTE is a folder, a URL, or a name for one.

Exit codes: 0 done, 2 your input, 3 the store, 4 a remote, 5 the grid, 6 training failed, 70 a bug of ours, 130 interrupted by Ctrl-C
([why](adr/0006-exit-codes-go-by-kind.md)).

## laminar

`laminar [OPTIONS] VERB [ARGS]...`

{options}

| verb | |
|---|---|
{verbs}
"""

ERRORS = """\
# Errors

Every error has a code, and every code a page: what happened, what was expected, how to fix it, and examples.
`laminar --debug VERB` shows the traceback. Why exit codes go by kind: [ADR 0006](../adr/0006-exit-codes-go-by-kind.md).
"""
KINDS = {
    "L0": "The stack file and the command line",
    "L1": "Data",
    "L2": "Models",
    "L3": "The store",
    "L4": "Remotes",
    "L5": "The grid",
    "L6": "Training",
    "L7": "Kernels",
    "L9": "Ours",
}


def parameters(function: Any) -> list[tuple[str, ParameterInfo, Any, bool]]:
    """(name, what typer is told of it, default, may be given several times) of every parameter of a verb."""
    hints = typing.get_type_hints(function, include_extras=True)
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        kind, info = typing.get_args(hints[name])[:2]
        found.append((name, info, parameter.default, "list[" in str(kind)))
    return found


def option_text(name: str, info: OptionInfo, default: Any) -> str:
    given = [info.default, *(info.param_decls or ())]  # in Annotated, typer takes the first word for the default and sorts it out later
    words = [word for word in given if isinstance(word, str) and word.startswith("-")] or ["--" + name.replace("_", "-")]
    value = "" if isinstance(default, bool) else " " + (info.metavar or name.upper())
    return ", ".join(f"{word}{value}" for word in words)


def argument_text(name: str, info: ArgumentInfo, default: Any, many: bool) -> str:
    word = (info.metavar or name.rstrip("_").upper()).strip("[].")
    word = f"{word}..." if many else word
    return word if default is inspect.Parameter.empty else f"[{word}]"


def tables(function: Any) -> tuple[str, str]:
    """The usage, and a table of arguments and options."""
    usage, rows = [], []
    for name, info, default, many in parameters(function):
        if isinstance(info, ArgumentInfo):
            text = argument_text(name, info, default, many)
            usage.append(text)
        else:
            assert isinstance(info, OptionInfo)
            text = option_text(name, info, default)
            short = text.split(", ")[0]
            usage.append(short if default is inspect.Parameter.empty else f"[{short}]")
        # paths with slashes, whatever the machine
        said = default.as_posix() if isinstance(default, Path) else default
        shown = f" Default: `{said}`." if said not in (None, False, inspect.Parameter.empty) else ""
        rows.append(f"| `{text}` | {(info.help or '').replace('|', 'or')}{shown} |")
    return " ".join(usage), "\n".join(["| | |", "|---|---|", *rows]) if rows else ""


def verb_section(verb: str, module: ModuleType) -> str:
    usage, rows = tables(module.run)
    parts = [f"## laminar {verb}", f"`{f'laminar {verb} {usage}'.strip()}`", inspect.cleandoc(module.__doc__ or ""), rows]
    return "\n\n".join(part for part in parts if part) + "\n"


def cli_page() -> str:
    listed = "\n".join(f"| [{verb}](#laminar-{verb.replace(' ', '-')}) | {line} |" for verb, (_, line) in verbs.VERBS.items())
    parts = [CLI.format(options=tables(verbs._options)[1], verbs=listed)]
    parts += [verb_section(verb, import_module(f"laminar.cli.{module}")) for verb, (module, _) in verbs.VERBS.items()]
    return "\n".join(parts)


def errors_page() -> str:
    parts = [ERRORS]
    for kind, title in KINDS.items():
        codes = [code for code in CATALOGUE if code.startswith(kind)]
        parts.append(f"\n## {title} (exit code {LaminarError(codes[0], '').exit_code})\n\n")
        parts += [f"- [{code}]({code}.md) {CATALOGUE[code]}\n" for code in codes]
    return "".join(parts)


PAGES = {DOCS / "ref-cli.md": cli_page, DOCS / "errors" / "README.md": errors_page}


def main() -> int:
    stale = [page for page, make in PAGES.items() if not page.exists() or page.read_text(encoding="utf-8") != make()]
    for page in stale:
        if "--check" in sys.argv:
            print(f"{page.relative_to(DOCS.parent)} is not what `make docs` writes")
        else:
            page.write_text(PAGES[page](), encoding="utf-8")
            print(f"wrote {page.relative_to(DOCS.parent)}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
