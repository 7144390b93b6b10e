"""A kernel to LLVM's text: code that is fast where the run's bounds are proved as it starts, and code that checks everything."""

from __future__ import annotations

from laminar.kernels.analyse.counted import finite
from laminar.kernels.analyse.proofs import Proofs, ordered
from laminar.kernels.analyse.space import Space
from laminar.kernels.compile.assembly import Code, Module, Word
from laminar.kernels.compile.board import write_claim
from laminar.kernels.compile.body import Allowed
from laminar.kernels.compile.boxes import Plan, walk_boxes, write_box
from laminar.kernels.compile.differs import Differs
from laminar.kernels.compile.entry import RUN, Frame, call_each, write_each, write_fail, write_run, write_watched
from laminar.kernels.compile.grid import Shape
from laminar.kernels.compile.interrupts import is_long, write_poll
from laminar.kernels.compile.started import Started, allowed
from laminar.kernels.compile.watch import Watch
from laminar.kernels.language.tree import Kernel, Loop, Variable, statements

CHECKED = "own.checked"
FAST = "own.fast"
RECORDED = "own.recorded"


def built(kernel: Kernel, space: Space, plan: Plan | None, watch: Watch | None = None) -> str:
    """Without a plan: one instance after another."""
    module, frame = Module(), Frame.of(kernel, space, watch)
    begin, end = Word("%begin", "i64"), Word("%end", "i64")
    endless = frozenset(id(one) for one in statements(kernel.body) if isinstance(one, Loop) and not finite(one))
    differs = Differs.of(space, plan.shape if plan is not None else Shape(), plan.axis if plan is not None else 0)
    proofs = Proofs.of(kernel, space)
    (fast_code, tests), checked = allowed(proofs, endless, differs), Allowed(endless=endless)
    tests |= proofs.fits if space.cuts else frozenset()
    write_fail(module)
    if is_long(kernel.body):
        write_poll(module)

    def choose(code: Code, given: dict[Variable, Word]) -> None:
        test = Started(code, given, begin, end).all_hold(ordered(tests))
        fast, slow = code.fresh("fast"), code.fresh("slow")
        code.branch(test, fast, slow)
        code.label(slow)
        code.give(call_each(code, frame, CHECKED, begin, end))
        code.label(fast)
        if plan is None:
            write_each(module, frame, FAST, fast_code)
            code.give(call_each(code, frame, FAST, begin, end))
        else:
            write_box(module, frame, plan, fast_code)
            walk_boxes(code, frame, given, plan, begin, end)

    def record(code: Code, _: dict[Variable, Word]) -> None:
        code.give(call_each(code, frame, RECORDED, begin, end))

    if watch is None:
        write_run(module, frame, choose)
    else:
        write_run(module, frame, choose, "own.plain")
        write_run(module, frame, record, "own.record")
        write_each(module, frame, RECORDED, checked, "minsize optsize cold", recorded=True)
        write_watched(module, frame, "own.plain", "own.record")
    write_claim(module, RUN)
    write_each(module, frame, CHECKED, checked, "minsize optsize cold")
    return str(module)
