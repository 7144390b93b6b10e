"""The generated pages: docs/ref-cli.md (from `laminar VERB --help`) and docs/errors/README.md (from the catalogue).

python -m tests.generate_docs            writes them (`make docs`)
python -m tests.generate_docs --check    says which of them are not what would be written
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from laminar.cli.verbs import VERBS, app
from laminar.core.errors import CATALOGUE, LaminarError

DOCS = Path(__file__).parents[1] / "docs"
WIDTH = "100"

CLI = """\
# Reference: the command line

Generated from `laminar VERB --help` by `make docs`.

Results go to stdout, progress and remarks to stderr. Verbs that list or report take `--json`; [ref-json.md](ref-json.md) has the shapes.

A REF is a layer of the current stack (`head`), of any stack in the store (`digits/head`), an earlier one (`head~1`, `head~2`), a tag
(`base:v1`), four or more digits of an id, or `name@sha256:ID`. A REMOTE is a folder, a URL, or a name for one.

Exit codes: 0 done, 2 your input, 3 the store, 4 a remote, 6 training failed, 70 a bug of ours, 130 interrupted by Ctrl-C
([why](adr/0006-exit-codes-go-by-kind.md)).

## laminar

```text
{help}
```
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
    "L6": "Training",
    "L9": "Ours",
}


def help_of(*words: str) -> str:
    """What `laminar … --help` prints on a terminal of WIDTH columns."""
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, [*words, "--help"], prog_name="laminar", env={"COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb"})
    if done.exit_code:
        raise RuntimeError(f"laminar {' '.join(words)} --help failed: {done.output}") from done.exception
    return "\n".join(line.rstrip() for line in done.output.strip("\n").splitlines())


def cli_page() -> str:
    parts = [CLI.format(help=help_of())]
    parts += [f"## laminar {verb}\n\n```text\n{help_of(verb)}\n```\n" for verb in VERBS]
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
    os.environ["COLUMNS"] = WIDTH
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
