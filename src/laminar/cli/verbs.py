"""The verbs, and the one edge where errors become messages and exit codes.

A verb's module is imported when the verb is called: `laminar --help` reads this table only, and answers before torch could.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from laminar import __version__
from laminar.core.errors import LaminarError

# verb: (module in laminar.cli, one line of help), in the order in which people meet them
VERBS: dict[str, tuple[str, str]] = {
    "init": ("init", "Write a commented laminar.toml and models.py that build as they stand."),
    "build": ("build", "Train what is missing or changed, bottom up."),
    "status": ("status", "What a build would do, and why, layer by layer."),
    "explain": ("explain", "Every input of a layer's key; on a miss, which one changed from what to what."),
    "log": ("log", "What each layer has been, newest first."),
    "show": ("show", "One layer: parent, tensors, metrics, recipe, where it was trained."),
    "diff": ("diff", "Two layers: inputs, tensors and metrics that differ."),
    "rollback": ("rollback", "Go back to the layer before, or to any earlier one."),
    "redo": ("redo", "Undo the last rollback."),
    "tag": ("tag", "Give a layer a name that stays, such as base:v1; without arguments, list the tags."),
    "evaluate": ("evaluate", "Metrics of a layer on a data set."),
    "predict": ("predict", "What a layer says of images or arrays."),
    "report": ("report", "An HTML page with the layers and their curves."),
    "push": ("push", "Copy a layer to a remote."),
    "pull": ("pull", "Copy a layer from a remote."),
    "remote": ("remote", "List, add or remove names for remotes."),
    "import": ("import_", "Make a layer of a .safetensors, .pt or .pt2 file."),
    "export": ("export", "Write a layer as .safetensors, .pt2 or .onnx."),
    "verify": ("verify", "Check every byte of the store; --repair mends it."),
    "gc": ("gc", "Remove what nothing refers to."),
    "doctor": ("doctor", "Look at the machine, the libraries, the store and the stack."),
    "demo": ("demo", "Build the example stack, change its top layer, build again, and report."),
}

DEBUG = "LAMINAR_DEBUG"


class Verbs(TyperGroup):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        module, line = VERBS[cmd_name]
        verb = import_module(f"laminar.cli.{module}")
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        app.command(name=cmd_name, help=verb.__doc__ or line)(verb.run)
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from laminar.core.nearest import did_you_mean

        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise LaminarError(
                "L008", f"there is no verb '{args[0]}'; {did_you_mean(args[0], VERBS)}", hint="laminar --help lists the verbs"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


app = typer.Typer(
    cls=Verbs,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="laminar VERB --help explains a verb. Exit codes: 0 done, 2 your input, 3 the store, 4 a remote, 6 training failed, 70 our bug.",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"laminar {__version__}")
        raise typer.Exit


@app.callback(help="Train neural networks in layers, in parallel, on the machines you have.")
def _options(
    folder: Annotated[Path | None, typer.Option("-C", metavar="DIR", help="Work as if started in DIR.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,  # noqa: ARG001
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
    typer.echo(f"error L900: a bug in Laminar: {type(error).__name__}: {error}", err=True)
    typer.echo("  fix: run it again with --debug, and send us what it prints together with `laminar doctor`", err=True)
