"""The way in: a kernel to the text of its adjoint.

Parameters of `kernel_backward` are those of the kernel, then `grad_y` of every output, then `grad_x` of every input. Arrays are of the
types and shapes that the kernel's have.

    const y      an output, as the kernel left it
    a            an array that the kernel changes, as it was before; the adjoint needs it for itself
    const grad_y the gradient of an output
    grad_a       of an array that is changed: comes as the gradient of the result, leaves as that of what was given
    grad_x       the gradient of an input, added up from zeros
    grad_s[1]    of a value s
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import NoReturn

from laminar.kernels.derive.active import Data, active
from laminar.kernels.derive.gather import gathered, in_parts
from laminar.kernels.derive.loops import looped
from laminar.kernels.derive.normal import normal
from laminar.kernels.derive.once import written_once
from laminar.kernels.derive.owners import Owners, index_of
from laminar.kernels.derive.prune import pruned, reads_of, without_zeros, written
from laminar.kernels.derive.refuse import refuse
from laminar.kernels.derive.sweep import Frame, Sweep
from laminar.kernels.derive.tidy import tidied
from laminar.kernels.language.print import print_kernel
from laminar.kernels.language.tree import (
    WHOLE,
    Assign,
    At,
    Atomic,
    Block,
    Constant,
    Declare,
    Kernel,
    Load,
    Mode,
    Object,
    Parameter,
    Read,
    Statement,
    Store,
    Variable,
    expressions,
    statements,
    walk,
)


def adjoint(kernel: Kernel, *, wanted: Collection[str] | None = None, file: str = "kernel.c") -> str:
    """The text of a file with `kernel_backward`. `wanted`: inputs whose gradients are asked for; all if None. Raises L705."""
    named = set(wanted) if wanted is not None else {one.name for one in inputs_of(kernel)}
    return print_kernel(
        _Adjoint(kernel, file, [one for one in inputs_of(kernel) if one.name in named]).made(), heading=f"derived from {file}"
    )


def adjoint_by_element(kernel: Kernel, name: str, *, file: str = "kernel.c") -> str | None:
    """The gradient of one input with an instance for each of its elements, if it would else be added up by atomics and can be turned
    round (gather.py). The kernel's own number of instances is a value of it, and has to be the one that the kernel's text says."""
    return _by_element(kernel, name, gathered, f"derived from {file}, by elements of {name}", file)


def adjoint_in_parts(kernel: Kernel, name: str, *, file: str = "kernel.c") -> str | None:
    """The same, with parts of the gradient: it is the sum over the last dimension of what comes out."""
    return _by_element(kernel, name, in_parts, f"derived from {file}, by parts of elements of {name}", file)


def _by_element(kernel: Kernel, name: str, turn: Callable[[Kernel, Kernel, Object], Kernel | None], heading: str, file: str) -> str | None:
    one = next(one for one in inputs_of(kernel) if one.name == name)
    if not isinstance(one.of, Object) or one.mode != "in":
        return None
    back = _Adjoint(kernel, file, [one]).made()
    target = next(slot.of for slot in back.arrays if slot.name == f"grad_{name}")
    assert isinstance(target, Object)
    if not any(isinstance(part, Atomic) for part in statements(back.body)):
        return None
    made = turn(kernel, back, target)
    return print_kernel(made, heading=heading) if made is not None else None


def inputs_of(kernel: Kernel) -> list[Parameter]:
    """What may have a gradient: arrays and values of floating type that are read."""
    return [one for one in (*kernel.arrays, *kernel.values) if one.of.type not in WHOLE and one.mode != "out"]


def outputs_of(kernel: Kernel) -> list[Parameter]:
    return [one for one in kernel.arrays if one.of.type not in WHOLE and one.mode != "in"]


@dataclass
class _Adjoint:
    kernel: Kernel
    file: str
    wanted: list[Parameter]

    def made(self) -> Kernel:
        kernel = self.kernel
        body = normal(kernel.body, self.refuse)
        self._check_atomics(body)
        inputs: frozenset[Data] = frozenset(one.of for one in self.wanted)
        objects = {one.object for one in statements(body) if isinstance(one, Store)}
        read = {part.object for one in statements(body) for whole in expressions(one) for part in walk(whole) if isinstance(part, Load)}
        dropped = frozenset(one for one in objects if one.memory == "global" and one not in read)
        once = {one for one in objects if written_once(one, body) and not (one.memory == "global" and one in read)}
        slots, owners = self._slots(), Owners.of(kernel, body)
        sweep = Sweep(
            active=active(body, inputs),
            dropped=dropped,
            once=frozenset(once),
            gradient={what: slot for what, slot in slots.items() if isinstance(what, Object)},
            ways={one.of: owners.way(one.of) for one in self.wanted if isinstance(one.of, Object)},
            zeroed=frozenset(one for one in dropped if one not in once),
            refuse=self.refuse,
            loop=looped,
            frame=Frame(frozenset(), outermost=True),
            gradients={*slots.values()},
        )
        alone = [what for what, way in sweep.ways.items() if way == "register" and self._only_read(what)]
        sweep.registers = {what: Variable(f"d_{what.name}", what.type, what.at) for what in alone}
        sweep.gradients |= set(sweep.registers.values())
        there, back = sweep.both(body, nested=False)
        first, last = self._ends(sweep, body, slots)
        outputs: frozenset[Data] = frozenset(slots.values())
        block, _ = pruned((*sweep.frame.start, *there, *first, *back, *last), outputs)
        block, live = pruned(without_zeros(block), outputs)
        block = tidied(block)
        for variable, what in sweep.losses.items():
            if variable in live:
                self.refuse(variable.at, f"this loop overwrites elements of `{what.name}` whose values the gradient needs")
        return self._kernel(block, slots)

    def refuse(self, at: At, why: str) -> NoReturn:
        refuse(self.kernel, self.file, at, why)

    def _check_atomics(self, body: Block) -> None:
        atomics = [one for one in statements(body) if isinstance(one, Atomic)]
        for one in statements(body):
            touched = reads_of(one) | ({one.object} if isinstance(one, Store) else set())
            for atomic in atomics:
                if atomic.object in touched and atomic.object.type not in WHOLE:
                    self.refuse(atomic.at, f"`{atomic.object.name}` is added to by all instances, and used in line {one.at.line}, too")

    def _only_read(self, what: Object) -> bool:
        return any(one.of is what and one.mode == "in" for one in self.kernel.arrays)

    def _slots(self) -> dict[Data, Object]:
        """Gradients that are parameters; of a value it is an array of one element."""
        made: dict[Data, Object] = {}
        for one in (*outputs_of(self.kernel), *self.wanted):
            shape = one.of.shape if isinstance(one.of, Object) else (Constant(one.at, "int", 1),)
            made[one.of] = Object(f"grad_{one.name}", one.of.type, shape, "global", one.at)
        return made

    def _ends(self, sweep: Sweep, body: Block, slots: dict[Data, Object]) -> tuple[Block, Block]:
        """Before the sweep backwards, and after it: sums that are in variables meanwhile."""
        first, last = list[Statement](), list[Statement]()
        for one in self.wanted:
            what, at, target = one.of, one.at, slots[one.of]
            if isinstance(what, Variable):
                slot = sweep.adjoint_of(what)
                assert isinstance(slot, Variable)
                last.append(Atomic(at, "add", target, (Constant(at, "int", 0),), Read(at, slot)))
            elif what in sweep.registers:
                slot = sweep.registers[what]
                last.append(Store(at, target, index_of(body, what), Read(at, slot)))
            else:
                continue
            first += [Declare(at, slot), Assign(at, slot, Constant(at, slot.type, 0.0))]
        return tuple(first), tuple(last)

    def _kernel(self, block: Block, slots: dict[Data, Object]) -> Kernel:
        kernel, changed = self.kernel, written(block)
        loaded = {data for one in statements(block) for data in reads_of(one)}
        added = {one.object for one in statements(block) if isinstance(one, Atomic)}
        made: list[Parameter] = [
            replace(one, mode="inout" if one.of in changed else "in") if one.role == "array" else one for one in kernel.parameters
        ]
        through = {one.of for one in kernel.arrays if one.mode == "inout"}
        results = [one.of for one in outputs_of(kernel)]
        for what, slot in slots.items():
            mode: Mode = "inout" if slot in loaded or slot in added else "out"
            if what in results:
                mode = "inout" if slot in changed or what in through else "in"
            made.append(Parameter(slot.name, "array", slot, slot.at, mode))
        return replace(kernel, name=f"{kernel.name}_backward", parameters=tuple(made), body=block)
