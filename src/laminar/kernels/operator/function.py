"""KernelFunction: a kernel that is called with tensors.

Without gradients and without anything that looks over torch's shoulder, a call is: shapes to a plan that was made before, memory for the
outputs, the native code. Everything else goes a longer way.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, final

import torch
from torch import Tensor, nn
from torch._C._functorch import TransformType
from torch.autograd import forward_ad

from laminar.core.errors import LaminarError
from laminar.core.kernel_files import KernelName
from laminar.kernels.arguments import declared
from laminar.kernels.circuit.guess import Account
from laminar.kernels.language.tree import WHOLE, Kernel
from laminar.kernels.open_file import kernel_of
from laminar.kernels.operator.autograd import Applied, formula
from laminar.kernels.operator.backward import Backward, backwards_of
from laminar.kernels.operator.bind import Binder, Call
from laminar.kernels.operator.engine import DTYPES
from laminar.kernels.operator.library import operator_of
from laminar.kernels.operator.routine import Routine

if TYPE_CHECKING:
    from laminar.kernels.operator.module import KernelModule

MOST_PLANS: Final = 256
_PLAIN: Final = frozenset({Tensor, nn.Parameter})
_NUMBERS: Final = frozenset({bool, int, float})
_LOCK: Final = threading.Lock()


@dataclass(frozen=True)
class Plan:
    """Of a call with tensors of these shapes and these values."""

    values: tuple[Any, ...]
    slots: bytes
    count: int
    like: bool  # the one output has the inputs' shape, and all of it is written
    as_said: bool  # there are as many instances as the kernel's text says
    zero: bool  # a value is 0


@final
class KernelFunction:
    """Made by `laminar.kernel`. Positional tensors are the inputs in order; values, and arrays if you like, go by name."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.name = KernelName.of(text, file)
        self.kernel: Kernel = kernel_of(text, file)
        self._binder = Binder(self.kernel, file)
        self.routine = Routine(
            name=self.name.operator,
            kernel=self.kernel,
            file=file,
            given=tuple(one.name for one in self._binder.inputs),
            copied=frozenset(one.name for one in self._binder.inputs if one.mode == "inout"),
            returned=tuple(one.name for one in self.kernel.arrays if one.mode != "in"),
            flat=frozenset(one.name for one in self.kernel.arrays) if self._binder.flat else frozenset(),
        )
        if not self.routine.returned:
            raise LaminarError("L702", f"{file}: the kernel writes no array: a call would give nothing", hint="an array without const")
        self._values = tuple(one.name for one in self.kernel.values)
        self._alike = self._binder.flat and self._filled()
        self.whole = any(one.of.type in WHOLE for one in self.kernel.arrays if one.mode != "in")  # of some outputs there is no gradient
        self._dtypes = tuple(DTYPES[one.of.type] for one in self._binder.inputs)
        self._plans: dict[Any, Plan] = {}
        self._operators: dict[tuple[str, ...], Any] = {}
        self._backwards: dict[tuple[frozenset[str], bool], tuple[Backward, ...] | LaminarError] = {}
        floats = [one.name for one in self.kernel.values if one.of.type not in WHOLE]
        for number in range(len(floats) + 1) if len(floats) < 3 else (0, len(floats)):
            for own in combinations(floats, number):
                self.operator(own)  # now: torch.compile cannot register anything while it looks

    def _filled(self) -> bool:
        """Are there inputs, and then one output, of the first one's dtype, all of which is written?"""
        *given, made = self.kernel.arrays
        inputs = bool(given) and all(one.mode == "in" for one in given)
        return inputs and made.mode == "out" and given[0].of.type == made.of.type and made.name in self.routine.filled

    def __call__(self, *tensors: Tensor, **named: Any) -> Any:
        """The outputs: one tensor, or a tuple in the order of the parameters. Raises L702."""
        if torch.compiler.is_compiling():
            return self._traced(self._binder.call(tensors, named))
        if len(tensors) == len(self._dtypes) and torch._C._len_torch_dispatch_stack() == 0 and forward_ad._current_level < 0:
            wanted = False
            for tensor, dtype in zip(tensors, self._dtypes, strict=True):
                if type(tensor) not in _PLAIN or tensor.dtype is not dtype or not tensor.is_cpu or tensor.layout is not torch.strided:
                    break
                wanted = wanted or tensor.requires_grad
            else:
                plan = self._known(tensors, named)
                if plan is not None and torch._C._functorch.peek_interpreter_stack() is None:
                    if wanted and torch.is_grad_enabled():
                        return Applied.apply(self, (), plan, *tensors)  # type: ignore[no-untyped-call]
                    return self.run(tensors, plan)
        return self._long(tensors, named)

    def _known(self, tensors: Sequence[Tensor], named: dict[str, Any]) -> Plan | None:
        try:
            plan = self._plans.get((*named.items(), *[tensor.shape for tensor in tensors]))
        except TypeError:  # something that cannot be looked up, such as an array
            return None
        return None if plan is not None and plan.zero and _minus_zero(named) else plan  # it equals 0.0, and is another value

    def run(self, tensors: Sequence[Tensor], plan: Plan) -> Any:
        """The outputs, without gradients."""
        routine = self.routine
        if plan.like and all(one.is_contiguous() and not one.is_neg() for one in tensors):
            made = torch.empty_like(tensors[0])
            routine.engine.run((*tensors, made), plan.slots, plan.values, plan.count)
            return made
        results = routine.run(tensors, plan.values, plan.count, plan.slots)
        return results[0] if len(results) == 1 else results

    def _long(self, tensors: Sequence[Tensor], named: dict[str, Any]) -> Any:
        call = self._binder.call(tensors, named)
        self._refuse_others(call)
        watched = torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack() is not None
        own = {name: call.values[name] for name in self._values if isinstance(call.values.get(name), Tensor)}
        if watched or any(type(one) not in _PLAIN for one in (*call.tensors, *own.values())):
            return self._traced(call)
        values, count = self._binder.fit(call)
        plan = Plan(values, self.routine.engine.slots(values), count, self._alike, call.instances is None, 0 in values)
        plain = all(type(value) in _NUMBERS for value in named.values())
        if len(tensors) == len(self._dtypes) and plain and not _minus_zero(named):
            with _LOCK:
                if len(self._plans) >= MOST_PLANS:
                    self._plans.clear()
                self._plans[(*named.items(), *[tensor.shape for tensor in tensors])] = plan
        if torch.is_grad_enabled() and any(one.requires_grad for one in (*call.tensors, *own.values())):
            return Applied.apply(self, tuple(own), plan, *call.tensors, *own.values())  # type: ignore[no-untyped-call]
        return self.run(call.tensors, plan)

    def _refuse_others(self, call: Call) -> None:
        """Ways of torch to derive that do not see a kernel's adjoint: they would give zeros, or an error of their own."""
        given = [one for one in (*call.tensors, *call.values.values()) if isinstance(one, Tensor)]
        levels = {level.key() for level in torch._C._functorch.get_interpreter_stack() or ()}
        forward = forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(one).tangent is not None for one in given)  # type: ignore[no-untyped-call]
        if forward or levels & {TransformType.Grad, TransformType.Jvp}:
            said = "gradients of kernels go backwards, by torch.autograd: torch.func's and those that go forwards do not see them"
            raise LaminarError("L705", f"{self.file}: {said}", hint="torch.autograd.grad, or backward()")

    def _traced(self, call: Call) -> Any:
        own = [name for name in self._values if isinstance(call.values.get(name), Tensor)]
        return self.operator(own)(*call.tensors, *self._binder.given(call), call.instances)

    def operator(self, own: Sequence[str] = ()) -> Any:
        """The operator that tracing sees; `own`: values that come as tensors."""
        found = self._operators.get(tuple(own))
        if found is None:
            ordered = tuple(name for name in self._values if name in own)
            found = self._operators[tuple(own)] = operator_of(self.routine, frozenset(ordered), formula(self, ordered))
        return found

    def backwards(self, wanted: frozenset[str], *, as_said: bool) -> tuple[Backward, ...] | LaminarError:
        """The adjoints for these inputs; if there are none, why."""
        found = self._backwards.get((wanted, as_said))
        if found is None:
            try:
                found = backwards_of(self.kernel, self.file, wanted, as_said=as_said)
            except LaminarError as error:
                found = error
            self._backwards[wanted, as_said] = found
        return found

    @property
    def guesses(self) -> Account:
        """What was run before its condition was known, in all calls so far that ran as a circuit: `guesses.runs` says how many did.
        Calls of the gradient are not among them."""
        account = Account()
        account.add(self.routine.engine.guesses)
        return account

    def module(self, **values: Any) -> KernelModule:
        """As a module of a model, called with the tensors alone. Raises L702."""
        from laminar.kernels.operator.module import KernelModule

        for name in values:
            self._binder.check_name(name)
        return KernelModule(self, **values)

    def __reduce__(self) -> tuple[Any, ...]:
        return (KernelFunction, (self.text, self.file))

    def __deepcopy__(self, _: Any) -> KernelFunction:
        return self  # nothing of it ever changes

    def __repr__(self) -> str:
        words = ", ".join(declared(one) for one in (*self._binder.inputs, *self.kernel.values))
        return f"<kernel {self.file}: {words}>"


def _minus_zero(named: Mapping[str, Any]) -> bool:
    return any(type(value) is float and value == 0 and math.copysign(1, value) < 0 for value in named.values())
