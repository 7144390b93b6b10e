"""Train what is missing or changed, bottom up, and reuse the rest.

Without LAYER, all layers of the stack; with it, those layers and what they stand on. Ctrl-C keeps a checkpoint: the next
build goes on from there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from laminar.cli.cluster_options import On, StartTimeout, cluster, other_rank, place
from laminar.cli.output import Json, number, print_json, remark, say, seconds, table
from laminar.cli.strategy_options import Compress, Elastic, Evaluator, Strategy, Workers, automatic, choose
from laminar.cli.team import totals
from laminar.core.errors import LaminarError
from laminar.core.heap import keep_freed_memory
from laminar.stack.build import BuildReport, Built, build
from laminar.stack.choose_data import skipping_bad
from laminar.stack.plan import plan, run_of
from laminar.stack.project import open_project
from laminar.stack.read import StackFile
from laminar.store.store import Store
from laminar.train.misgivings import WARNING
from laminar.train.strategies import strategy as strategy_of

if TYPE_CHECKING:
    from laminar.launch.attach import Run
    from laminar.plan.trials.auto import Auto


def run(
    layers: Annotated[list[str] | None, typer.Argument(metavar="LAYER", help="Layers to build.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Train the named layers (or all) even when nothing changed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    strategy: Strategy = None,
    workers: Workers = None,
    elastic: Elastic = None,
    compress: Compress = None,
    evaluator: Evaluator = False,
    on: On = None,
    start_timeout: StartTimeout = None,
    attach: Annotated[
        str | None,
        typer.Option("--attach", metavar="RUN", help="Watch a build on a cluster that is under way; go on with it if its chief is gone."),
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read, and count them.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    json: Json = False,
) -> None:
    if not dry_run and other_rank(on):
        return
    project = open_project()
    file = skipping_bad(project.need_file()) if skip_bad else project.need_file()
    store = project.look_at_store() if dry_run else project.open_store()
    gone: Run | None = None
    if attach is not None and not dry_run:
        gone = watch(store, attach, quiet=quiet)
        if gone is None:
            return
        layers, had = [gone.layer], gone.options
        strategy, workers, elastic = strategy or had["strategy"], workers or had["workers"], elastic or had["elastic"]
        compress, on, evaluator = compress or had["compress"], on or had["on"], evaluator or had.get("evaluator", False)
    auto = (
        automatic(
            strategy, workers, elastic=elastic, compress=compress, evaluator=evaluator or None, on=None if place(on) == "local" else on
        )
        if not dry_run
        else None
    )
    file = choose(file, strategy, workers, elastic, compress, evaluator, layers)
    if dry_run:
        from laminar.cli.status import show_plan
        from laminar.stack.whole_batch import batch_notes

        steps = plan(file, store, targets=layers or None, force=force)
        show_plan(file, steps, batch_notes(file, store, steps), as_json=json)
        return
    if gone is not None:
        same_run(file, store, gone)
    options = {"on": place(on), "strategy": strategy, "workers": workers, "elastic": elastic, "compress": compress, "evaluator": evaluator}
    run_build(file, store, layers, on=on, start_timeout=start_timeout, options=options, auto=auto, force=force, quiet=quiet, json=json)


def run_build(
    file: StackFile,
    store: Store,
    layers: list[str] | None,
    *,
    on: str | None,
    start_timeout: float | None = None,
    options: dict[str, Any] | None = None,
    auto: Auto | None = None,
    force: bool,
    quiet: bool,
    json: bool,
) -> None:
    """Build with progress, and show what came of it."""
    from laminar.cli.progress import progress

    showing = progress(quiet=quiet, workers=workers_of(file))
    keep_freed_memory()
    try:
        with sigterm_as_ctrl_c(), showing as emit, cluster(file, store, on, start_timeout, options) as how:
            soon = how.soon if how is not None else None
            report = build(file, store, targets=layers or None, force=force, emit=emit, how=how or auto, soon=soon)
    except KeyboardInterrupt:
        if (on or "").partition(":")[0] in ("grid", "grids"):
            remark("interrupted: what was begun on the grid goes on there; the same command watches it again")
        else:
            remark("interrupted: what was trained is kept; `laminar build` goes on from the last checkpoint")
        raise typer.Exit(130) from None
    if json:
        print_json(report.to_json())
    else:
        show_report(report)


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Whoever ends machines or jobs (Kubernetes, Slurm, systemd) sends it first, and gives time to write a checkpoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a script's jobs in the background do: what is meant now is Ctrl-C
            signal.signal(signal.SIGINT, signal.default_int_handler)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def same_run(file: StackFile, store: Store, gone: Run) -> None:
    """L008 unless what would be built is the run that somebody began."""
    step = plan(file, store, targets=[gone.layer])[-1]
    name = run_of(store, step.key, again=False) if step.key is not None else None
    if step.action == "build" and name != gone.name:
        raise LaminarError(
            "L008",
            f"run {gone.name} cannot be gone on with: {file.path.name} or the options have changed, and another layer would be trained",
            hint=f"laminar status {gone.layer}; laminar build trains what is written now",
        )


def watch(store: Store, name: str, *, quiet: bool) -> Run | None:
    """Until the run is over. The run, if its chief is gone and somebody has to go on."""
    from laminar.cli.progress import progress
    from laminar.launch.attach import find, follow

    found = find(store, name)
    try:
        with progress(quiet=quiet) as emit:
            for event in follow(found):
                emit(event)
    except KeyboardInterrupt:
        remark(f"left: the training goes on, and `laminar build --attach {found.name}` comes back to it; `kill -INT {found.pid}` ends it")
        raise typer.Exit(130) from None
    if found.finished():
        say(f"{found.layer}: run {found.name} is done; `laminar show {found.layer}` says what came of it")
        return None
    if found.given_up():
        remark(f"run {found.name} failed or was interrupted: `laminar build` goes on from its last checkpoint")
        raise typer.Exit(6)
    remark(f"the chief of run {found.name} (process {found.pid} on {found.host}) is gone: going on from the last checkpoint")
    return found


def workers_of(file: StackFile) -> dict[str, int]:
    return {layer.name: strategy_of(layer.train.strategy).workers for layer in file.spec.layer}


def show_report(report: BuildReport) -> None:
    figures = [m for m in ("accuracy", "loss", "mae", "r2") if any(m in layer.metrics for layer in report.layers)]
    table(
        "",
        ["layer", "id", "", *figures, "samples/s", "training", "in all", "why"],
        [
            [
                layer.name,
                layer.id[:12],
                layer.action,
                *[_figure(layer, m) for m in figures],
                number(layer.metrics.get("samples_per_second")),
                seconds(layer.spent["training"]) if "training" in layer.spent else "-",
                seconds(layer.seconds),
                layer.why,
            ]
            for layer in report.layers
        ],
        right=[*figures, "samples/s", "training", "in all"],
    )
    for layer in report.layers:
        if layer.team:
            say(f"{layer.name}: {totals(layer.team)}")
        if layer.features:
            say(f"{layer.name}: {layer.features}")
        for note in layer.notes:
            say(f"{WARNING}{layer.name}: {note.removeprefix(WARNING)}" if note.startswith(WARNING) else f"{layer.name}: {note}")
    built = len(report.layers) - len(report.reused)
    saved = sum(layer.saved for layer in report.reused)
    reused = f"{len(report.reused)} layer{'s' if len(report.reused) != 1 else ''} reused"
    say(
        f"{built} built, {reused}"
        + (f" ({'its' if len(report.reused) == 1 else 'their'} training took {seconds(saved)})" if report.reused else "")
    )


def _figure(layer: Built, metric: str) -> str:
    """A loss that a warning speaks of is marked: the line below the table says why."""
    doubtful = metric == "loss" and any(note.startswith(f"{WARNING}the test loss") for note in layer.notes)
    return number(layer.metrics.get(metric)) + (" !" if doubtful else "")
