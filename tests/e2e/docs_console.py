"""Console blocks of the documentation: found, run, and compared with what the page says they print.

A page shows a session as it would look in a terminal:

    ```console
    $ laminar status
    head  build  train.lr 0.01 -> 0.02
    ```

Lines that begin with `$ ` are run, in one folder, one after the other; `cd` counts. Every other line must be printed by the command
above it, in that order; other lines may come in between, `…` alone stands for such, and at the end of a line for its rest. What
differs from run to run (ids, times, figures) is compared by its form only.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PLACE = "~/flowers-lab"  # what pages call the folder they are run in
ERROR = re.compile(r"^error (L\d{3}):", re.M)

_PLAIN = re.compile(r"((?:[A-Z_]+=\S* )*)(laminar [^|<>;&$]*)")  # no pipe, no redirection: needs no shell
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.M | re.S)
_FORMS = (
    (re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]+"), "<object>"),
    (re.compile(r"\b[0-9a-f]{16}-\d+\b"), "<run>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{6,64}\b"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ?"), "<time>"),
    (re.compile(r"-?\d[\d,]*(?:\.\d+)?\s?(?:ms|s|min)\b"), "<duration>"),
    (re.compile(r"-?\d[\d,]*(?:\.\d+)?\s?(?:B|kB|MB|GB)\b"), "<size>"),
    (re.compile(r"-?\d+(?:\.\d+)?%"), "<share>"),
    (re.compile(r"-?\b\d+\.\d+(?:e[+-]?\d+)?\b|\b\d{1,3}(?:,\d{3})+\b"), "<figure>"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    heading: str  # the nearest `## ` above it


@dataclass
class Command:
    line: str
    prints: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """A command whose output is an error leaves with the code of its kind."""
        from laminar.core.errors import LaminarError

        found = ERROR.search("\n".join(self.prints))
        return LaminarError(found[1], "").exit_code if found else 0


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    headings = [(found.start(), found[1]) for found in re.finditer(r"^## (.+)$", text, re.M)]
    return [
        Block(found[1], found[2], next((title for start, title in reversed(headings) if start < found.start()), ""))
        for found in _FENCE.finditer(text)
    ]


def commands(page: Path, heading: str | None = None) -> list[Command]:
    found: list[Command] = []
    for block in blocks(page):
        if block.language == "console" and heading in (None, block.heading):
            found += _commands(block.text)
    return found


def _commands(text: str) -> Iterator[Command]:
    command: Command | None = None
    until = ""  # the word that ends a here-document
    for line in text.splitlines():
        if until and command is not None:
            command.line += "\n" + line
            until = "" if line == until else until
        elif line.startswith("$ "):
            if command is not None:
                yield command
            command = Command(line[2:])
            until = found[1] if (found := re.search(r"<<'?(\w+)'?$", line)) else ""
        elif line.strip():
            assert command is not None, f"a console block begins with a line that is no command: {line!r}"
            command.prints.append(line)
    if command is not None:
        yield command


def form(line: str) -> str:
    """A line with what differs from run to run replaced by what kind of thing it is."""
    for pattern, word in _FORMS:
        line = pattern.sub(word, line)
    return line.strip()


def missing(command: Command, printed: str) -> str | None:
    """The first line of the page that the command did not print (in order), or None."""
    said = iter([form(line) for line in printed.splitlines()])
    for line in command.prints:
        wanted = form(line)
        begin = wanted.removesuffix("…")  # a line may break off with …
        if begin and not any(found.startswith(begin) if begin != wanted else found == wanted for found in said):
            return line
    return None


class Session:
    """A shell in one folder with the installed `laminar` first on the path, and nothing of the user's own settings.

    With `inside`, plain `laminar …` lines run in this process: loading torch anew for each of a hundred commands would take minutes.
    """

    def __init__(self, folder: Path, home: Path, *, inside: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        home.mkdir(parents=True, exist_ok=True)
        self.start = self.folder = folder
        self._inside = inside
        self._where = home / "where"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("LAMINAR_", "PYTEST_"))}
        self._environment = clean | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "HOME": str(home),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def follow(self, session: list[Command]) -> None:
        """Run every command of a page; the first that leaves or prints otherwise than the page says fails."""
        for command in session:
            code, printed = self.run(command.line)
            printed = printed.replace(str(self.start), PLACE)
            assert code == command.exit_code, f"$ {command.line}\nleft with {code}, not {command.exit_code}:\n{printed}"
            line = missing(command, printed)
            assert line is None, f"$ {command.line}\ndid not print (in this order)\n    {line}\nbut\n{printed}"

    def run(self, line: str) -> tuple[int, str]:
        """Exit code, and what was printed on both channels."""
        if self._inside and (found := _PLAIN.fullmatch(line)):
            settings = dict(word.split("=", 1) for word in found[1].split())
            return self._run_inside(shlex.split(found[2]), settings)
        script = f'{line}\ncode=$?\npwd > "{self._where}"\nexit $code'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=240,
            check=False,
        )
        if self._where.exists():
            self.folder = Path(self._where.read_text().strip())
        return done.returncode, done.stdout

    def _run_inside(self, words: list[str], settings: dict[str, str]) -> tuple[int, str]:
        from laminar.cli import main

        printed = io.StringIO()
        here, argv, before = Path.cwd(), sys.argv, dict(os.environ)
        os.chdir(self.folder)
        sys.argv = words
        os.environ.update({"LAMINAR_CACHE": str(self._where.parent / "cache")} | settings)
        code = 0
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                main()
        except SystemExit as left:
            code = int(left.code or 0)
        finally:
            os.chdir(here)
            sys.argv = argv
            os.environ.clear()
            os.environ.update(before)
        return code, printed.getvalue()
