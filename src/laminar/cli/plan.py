"""Measure, simulate every strategy, and say which would be fastest for a layer on the machines at hand.

What operators and links take is measured once and kept. Nothing is trained, unless --try says so. Any strategy of the list can be
written into laminar.toml as it stands. `laminar plan check` holds earlier predictions against what was measured then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from laminar.cli.output import Json, print_json, remark, say, size, table
from laminar.cli.output import seconds as duration
from laminar.cli.progress import counted
from laminar.core.errors import LaminarError
from laminar.stack.project import open_project

if TYPE_CHECKING:
    from laminar.core.events import Event
    from laminar.plan.desktops import Desktops
    from laminar.plan.explain import Turn
    from laminar.plan.plan import Plan
    from laminar.plan.trials.planner import Planned, Wishes
    from laminar.stack.open_job import Description
    from laminar.store.store import Store
    from laminar.train.job import Job


EARLY: Final = 5.0  # seconds after which the best plan so far is told, and then again


def run(
    layer: Annotated[str, typer.Argument(metavar="LAYER", help="A layer of the stack.")],
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="At most so many; as many as there are cores otherwise.")] = None,
    machine: Annotated[
        Path | None, typer.Option("--machine", metavar="FILE", help="A cluster that you do not have: nodes, cores, memory, links.")
    ] = None,
    on: Annotated[
        str | None, typer.Option("--on", metavar="WHERE", help="Also for a grid, by the nodes that are there: grid, or grid://HOST:8787.")
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Only this batch; others are tried, too, otherwise.")] = None,
    same: Annotated[bool, typer.Option("--same-result", help="Only strategies that learn what one process learns.")] = False,
    top: Annotated[int, typer.Option("--top", min=1, help="Plans to show.")] = 10,
    budget: Annotated[
        float, typer.Option("--budget", metavar="SECONDS", help="Time for measuring and searching: what there is no time for is left out.")
    ] = 60.0,
    seed: Annotated[int, typer.Option("--seed", help="Of the search.")] = 0,
    explain: Annotated[
        tuple[int, int] | None, typer.Option("--explain", metavar="A B", help="Two plans by their numbers: where they differ, and why.")
    ] = None,
    trace: Annotated[Path | None, typer.Option("--trace", metavar="FILE", help="A step of the best plan as a Chrome trace.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="A step of the best plan as a picture.")] = None,
    number: Annotated[int, typer.Option("--plan", metavar="N", min=1, help="For --trace and --svg: another plan than the best.")] = 1,
    real: Annotated[int, typer.Option("--try", metavar="N", min=0, help="Run the best N plans for some real steps.")] = 0,
    calibration: Annotated[
        bool, typer.Option("--calibrate", help="First run every kind of strategy on small models: corrects predictions. Minutes, once.")
    ] = False,
    even_if_busy: Annotated[bool, typer.Option("--even-if-busy", help="Measure although other programs are at work.")] = False,
    measure_again: Annotated[bool, typer.Option("--measure-again", help="Measure all of it anew.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    json: Json = False,
) -> None:
    from laminar.plan.read_machine import read_machine

    wished = read_machine(machine) if machine is not None else None
    if explain and min(explain) < 1:
        raise LaminarError("L008", f"--explain {explain[0]} {explain[1]}: plans are numbered from 1", hint="--explain 1 2")
    _refuse_places(trace=trace, svg=svg)
    other = "--machine" if wished is not None else "--on" if on is not None else None
    if real and other:
        raise LaminarError("L008", f"--try runs plans on this machine, and {other} is another one", hint="leave one of them out")
    desktops = _desktops(on, wished is not None)
    from laminar.plan.ledger import Ledger
    from laminar.plan.profile.measure import Profile
    from laminar.plan.trials.auto import try_plan
    from laminar.plan.trials.open_layer import open_layer
    from laminar.plan.trials.planner import Wishes, plan_job

    project = open_project()
    file, store = project.need_file(), project.open_store()
    wishes = Wishes(workers=workers, machine=wished, batch=batch, budget=budget, seed=seed, only_same=same, desktops=desktops)
    with ExitStack() as held:
        route: list[str] = []
        job, description = held.enter_context(open_layer(file, store, layer, lambda event: route.extend(_route(event))))
        wishes, remarks = _with_grid(wishes, job, description)
        remarks += route
        if batch is not None and batch > (samples := len(job.data.train)):
            said = f"--batch {batch}, but layer '{layer}' has {samples} samples to train with"
            raise LaminarError("L008", said, hint=f"--batch {samples}, or fewer")
        ledger = held.enter_context(closing(Ledger.open() if calibration else Ledger.at_hand()))
        tell = held.enter_context(counted(quiet=quiet))
        if calibration:
            from laminar.plan.trials.calibrate import calibrate

            calibrate(ledger, min(workers or 2, os.cpu_count() or 1), tell=tell, even_if_busy=even_if_busy)
        profile = held.enter_context(Profile.open(job, tell=tell, even_if_busy=even_if_busy, again=measure_again))
        planned = plan_job(job, profile, ledger, wishes, tell=tell, hear=_so_far(quiet=quiet))
        plans = planned.found.plans
        shown = plans[:top]
        measured: dict[int, float] = {}
        failed, told = list[str](), len(ledger.notes)
        for i, plan in enumerate(shown[:real]):
            tell(f"trying {plan.kind}", i, real)
            try:
                tried = try_plan(job, description, profile, ledger, plan)
            except LaminarError as error:
                if error.code == "L609":  # nor will the next one be measured then
                    raise
                failed.append(f"plan {i + 1}, {plan.kind}, could not be run: {error.message}")
                continue
            if tried is not None:
                measured[i] = tried
        planned = replace(planned, notes=(*planned.notes, *remarks, *failed, *ledger.notes[told:]))
        turns = planned.turns()
    if number > len(plans) or (explain and max(explain) > len(plans)):
        wanted = max(number, *(explain or (1,)))
        hint = f"laminar plan {layer} --top {len(plans)} lists them"
        if missing := planned.found.left_out:
            hint += f"; there was no time for {missing} more, which --budget gives"
        raise LaminarError("L008", f"there is no plan {wanted}: there are {len(plans)}", hint=hint)
    _write(planned, number, trace, svg)
    planned = _kept(store, file.spec.stack.name, layer, planned, measured, turns)
    if json:
        print_json(_json(planned, shown, measured, turns, explain))
        return
    _show(layer, planned, shown, measured)
    for turn in turns:
        say(str(turn))
    if explain:
        _explain(*(_drawn(planned, one) for one in explain))


def _route(event: Event) -> list[str]:
    """Whether the frozen part is computed in every step changes all prices, and goes by what was measured just now."""
    if event["event"] != "features" or "why" not in event:  # others count the samples that are done
        return []
    kept = "features are kept: the frozen part is in no step" if event["action"] == "kept" else "the frozen part is computed in every step"
    return [f"{kept} ({event['why']})"]


def _so_far(*, quiet: bool) -> Callable[[Plan, float], None]:
    """Says now and then which plan is the best until now, where the answer is long in coming."""
    last = 0.0

    def hear(plan: Plan, spent: float) -> None:
        nonlocal last
        if spent - last < EARLY or quiet:
            return
        from laminar.plan.explain import seconds

        last = spent
        remark(f"so far: {plan.name}, {seconds(plan.step_seconds)} a step, {duration(plan.seconds_to_target)} to the target")

    return hear


def _kept(store: Store, stack: str, layer: str, planned: Planned, measured: dict[int, float], turns: Sequence[Turn]) -> Planned:
    """For the dashboard; with a note where it could not be kept."""
    from laminar.plan.kept_plans import keep

    why = keep(store, planned.answer(stack, layer, "plan", measured=measured, turns=turns))
    return replace(planned, notes=(*planned.notes, why)) if why else planned


def _desktops(on: str | None, file: bool) -> Desktops | None:
    """Of the grid that was named."""
    if on is None:
        return None
    if on != "grid" and not on.startswith(("grid://", "grids://")):
        raise LaminarError("L008", f"--on {on}: only the nodes of a grid can be asked for", hint="--machine FILE describes a cluster")
    if file:
        raise LaminarError("L008", "--on is a grid that there is, and --machine one that there is not", hint="leave one of them out")
    from laminar.cli.grid_look import commander
    from laminar.grid.pricing.those_there import those_there

    with closing(commander(None if on == "grid" else on)) as asked:
        return those_there(asked.url, lambda: asked.get("/v1/nodes"))


def _with_grid(wishes: Wishes, job: Job, description: Description) -> tuple[Wishes, list[str]]:
    """And who knows what desktops take, where there are any; or what is to be said."""
    if wishes.desktops is None and (wishes.machine is None or wishes.machine.grid is None):
        asked = getattr(job.recipe.strategy, "kind", job.recipe.strategy) == "grid"
        help_ = "the layer's strategy is grid, which needs one: --on grid://HOST:8787 plans for the nodes that are there"
        return wishes, [f"{help_}; --machine FILE with [grid] for others"] if asked else []
    from laminar.grid.extra import need_grid

    need_grid()
    from laminar.grid.pricing.offer import price_for

    price, why = price_for(job, description)
    return replace(wishes, grid=price), [why] if why else []


def _json(
    planned: Planned, shown: list[Plan], measured: dict[int, float], turns: Sequence[Turn], explain: tuple[int, int] | None
) -> dict[str, Any]:
    from laminar.plan.explain import conclusion, differences, path

    found = planned.found
    plans = [plan.to_json() | {"measured_seconds": measured.get(i)} for i, plan in enumerate(shown)]
    told: dict[str, Any] = {
        "machine": planned.machine.name,
        "conclusion": conclusion(found.plans, found.left_out, found.refused),
        "turns": [str(turn) for turn in turns],
        "steps_model": {"critical_batch": planned.steps.critical_batch, "measured": planned.steps.measured, "source": planned.steps.source},
        "priced": planned.pricer.priced,
        "left_out": found.left_out,
        "search": [
            {
                "mesh": one.mesh,
                "split": one.split,
                "evaluated": one.evaluated,
                "space": one.space,
                "gain": one.gain,
                "exhaustive": one.whole,
            }
            for one in found.walked
        ],
        "notes": list(planned.notes),
        "plans": plans,
        "explain": None,
    }
    if explain:
        first, second = (_drawn(planned, i) for i in explain)
        told["explain"] = {
            "paths": [[{"what": what, "seconds": spent} for what, spent in path(plan)] for plan in (first, second)],
            "differences": [{"what": one.what, "first": one.first, "second": one.second} for one in differences(first, second)],
        }
    return told


def _show(layer: str, planned: Planned, shown: list[Plan], measured: dict[int, float]) -> None:
    from laminar.plan.explain import conclusion, seconds

    rows = []
    for i, plan in enumerate(shown):
        seen = [seconds(measured[i]) if i in measured else "-"] if measured else []
        rows.append(
            [
                str(i + 1),
                plan.name,
                str(plan.batch),
                seconds(plan.step_seconds),
                *seen,
                duration(plan.seconds_to_target),
                size(plan.memory_bytes),
                size(plan.bytes_per_step) if plan.bytes_per_step else "-",
                "yes" if plan.same_result else "no",
                plan.why,
            ]
        )
    head = [
        "",
        "strategy",
        "batch",
        "step",
        *(["measured"] if measured else []),
        "to target",
        "memory",
        "sent",
        "same result",
        "time goes to",
    ]
    table("", head, rows, right=["", "batch", "step", "measured", "to target", "memory", "sent"])
    found = planned.found
    say(f"{layer} on {planned.machine.name}: {conclusion(found.plans, found.left_out, found.refused)}")
    say(f"to target: as good as one process with the recipe, by {planned.steps.source}")
    for one in found.walked:
        how = "all" if one.whole else "a walk through"
        mesh = " x ".join(f"{axis} {count}" for axis, count in one.mesh.items())
        where = f"modules on a mesh of {mesh} that splits {', '.join(one.split)}"
        say(f"{where}: {how} {one.evaluated} of {one.space:,} tables priced, best {one.gain:.2f}x of one table for all")
    for note in planned.notes:
        remark(note)
    if found.left_out:
        remark(f"{found.left_out} plans were left out: there was no more time; --budget gives it")


def _drawn(planned: Planned, number: int) -> Plan:
    """With its timeline, where it has one."""
    from laminar.plan.explain import with_timeline

    plan = planned.found.plans[number - 1]
    return with_timeline(planned.found.plans, number, planned.pricer) if plan.drawn else plan


def _explain(first: Plan, second: Plan) -> None:
    from laminar.plan.explain import differences, path, seconds

    for plan in (first, second):
        say("")
        say(f"{plan.name}, {seconds(plan.step_seconds)} a step: what it waits for")
        for what, spent in path(plan):
            say(f"  {seconds(spent):>10}  {what}")
    say("")
    table(
        "",
        ["", first.kind, second.kind, "difference"],
        [[one.what, seconds(one.first), seconds(one.second), f"{1e3 * one.more:+.3f} ms"] for one in differences(first, second)],
        right=[first.kind, second.kind, "difference"],
    )


def _refuse_places(**files: Path | None) -> None:
    """L008, before anything is measured, for what cannot become a file: a folder, or a place below a file."""
    for option, path in files.items():
        if path is not None and (path.is_dir() or not next(one for one in path.absolute().parents if one.exists()).is_dir()):
            raise LaminarError(
                "L008", f"--{option} {path}: there can be no such file", hint=f"--{option} plan.{option} is one in this folder"
            )


def _write(planned: Planned, number: int, trace: Path | None, svg: Path | None) -> None:
    if trace is None and svg is None:
        return
    import json as plain

    from laminar.core import atomic
    from laminar.plan.chrome_trace import chrome_trace
    from laminar.plan.explain import with_timeline
    from laminar.plan.timeline_svg import timeline_svg

    plan = with_timeline(planned.found.plans, number, planned.pricer)
    if trace is not None:
        atomic.write_text(trace, plain.dumps(chrome_trace(plan.ran, plan.resources)))
    if svg is not None:
        atomic.write_text(svg, timeline_svg(plan.ran, plan.resources, max(one.end for one in plan.ran), plan.name))
