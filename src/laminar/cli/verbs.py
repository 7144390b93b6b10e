"""The verbs, and the one edge where errors become messages and exit codes.

A verb's module is imported when the verb is called, so that no verb waits for what another one needs.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from laminar import __version__
from laminar.cli import help
from laminar.cli.help import VERBS as VERBS
from laminar.cli.plain import PlainCommand, PlainGroup
from laminar.core import printable
from laminar.core.errors import LaminarError

DEBUG = "LAMINAR_DEBUG"


class Verbs(PlainGroup):
    """A group whose commands are imported when they are asked for. `data show` is the verb `show` in the group `data`."""

    within = ""  # "data " in the group of that name

    def _known(self) -> list[str]:
        words = (verb.removeprefix(self.within).partition(" ")[0] for verb in VERBS if verb.startswith(self.within))
        return list(dict.fromkeys(words))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        return self._known()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        full = self.within + cmd_name
        if full not in VERBS:
            return _group(full) if cmd_name in self._known() else None
        module, line = VERBS[full]
        verb = import_module(f"laminar.cli.{module}")
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        app.command(name=cmd_name, cls=PlainCommand, help=verb.__doc__ or line)(verb.run)
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from laminar.core.nearest import did_you_mean

        if args and args[0] not in self._known() and not args[0].startswith("-"):
            raise LaminarError(
                "L008",
                f"there is no verb '{self.within}{args[0]}'; {did_you_mean(args[0], self._known())}",
                hint=f"laminar {self.within}--help lists the verbs",
            )
        both = " ".join(args[:2])  # `plan check` beside `plan LAYER`
        if len(args) > 1 and self.within + args[0] in VERBS and self.within + both in VERBS:
            args = [both, *args[2:]]
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if self.within:
            super().format_help(ctx, formatter)
        else:
            formatter.write(help.page(formatter.width))

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items() if verb.startswith(self.within)])


def _group(name: str) -> Any:
    """The group of the verbs that begin with `name`."""
    kind = type("Group", (Verbs,), {"within": f"{name} "})
    app = typer.Typer(cls=kind, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True)
    app.callback(help=f"The verbs that begin with {name}.")(lambda: None)
    command = typer.main.get_command(app)
    command.name = name
    return command


app = typer.Typer(
    cls=Verbs,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    subcommand_metavar=help.USAGE,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": help.WIDEST},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"laminar {__version__}")
        raise typer.Exit


@app.callback(help=help.SUMMARY)
def _options(
    folder: Annotated[Path | None, typer.Option("-C", metavar="DIR", help=help.FOLDER)] = None,
    debug: Annotated[bool, typer.Option("--debug", help=help.DEBUG)] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help=help.VERSION)] = False,  # noqa: ARG001
) -> None:
    if debug:
        os.environ[DEBUG] = "1"
    if folder is not None:
        try:
            os.chdir(folder)
        except OSError as error:
            raise LaminarError("L008", f"-C {folder}: {error.strerror}", hint="name a folder that exists") from None


def main() -> None:
    """Run, and leave with the exit code of the error's kind; a traceback only for our own bugs or with --debug."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name of another script, on a terminal that knows none
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except typer.Abort:  # what click makes of Ctrl-C
        typer.echo("interrupted", err=True)
        sys.exit(130)
    except LaminarError as error:
        _complain(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it flushes at the end
        sys.exit(141)
    except Exception as error:
        if hasattr(error, "show") and hasattr(error, "exit_code"):  # click's own: a missing argument, an unknown option
            error.show()
            sys.exit(error.exit_code)
        _bug(error)
        sys.exit(70)


def _complain(error: LaminarError) -> None:
    if os.environ.get(DEBUG):
        traceback.print_exc()
    typer.echo(f"{typer.style('error', fg='red', bold=True)} {error.code}: {error.message}", err=True)
    if error.hint:
        typer.echo(f"{typer.style('  fix', fg='green')}: {error.hint}", err=True)


def _bug(error: Exception) -> None:
    from laminar.core.atomic import explaining_os_errors

    if isinstance(error, OSError):
        try:
            with explaining_os_errors(Path(str(error.filename or "a file"))):
                raise error
        except LaminarError as known:
            _complain(known)
            sys.exit(known.exit_code)
        except OSError:
            pass
    if os.environ.get(DEBUG):
        traceback.print_exc()
    else:
        last = traceback.extract_tb(error.__traceback__)[-1]
        typer.echo(f"  at {Path(last.filename).name}:{last.lineno} in {last.name}", err=True)
    typer.echo(printable.lines(f"error L900: a bug in Laminar: {type(error).__name__}: {error}"), err=True)
    typer.echo("  fix: run it again with --debug, and send us what it prints together with `laminar doctor`", err=True)
