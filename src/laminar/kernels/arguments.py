"""What a kernel is called with: names to arrays and values. Sizes are told by the arrays; shapes, dtypes and the number of instances are
checked before anything runs.

    fitted(kernel, {"x": ((1024,), "float32")}, {"slope": 0.1})      values, shapes of all arrays, number of instances
    arguments(kernel, {"x": x, "slope": 0.1})                        the arrays themselves, outputs made of zeros

The number of instances is the one that is given; else what `#pragma laminar instances` says; else what the arrays say of the kernel's
second parameter; else the number of elements of the first output.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.kernels.language.fold import size_value
from laminar.kernels.language.print import show
from laminar.kernels.language.rewrite import Rewrite
from laminar.kernels.language.rules import excerpt
from laminar.kernels.language.tree import WHOLE, Constant, Expression, Kernel, Object, Parameter, Read, Type, Variable, walk
from laminar.kernels.language.types import converted

Array: TypeAlias = np.ndarray[Any, Any]
Value: TypeAlias = bool | int | float
Scalars: TypeAlias = dict[Variable, Value]

DTYPES: Final[dict[Type, str]] = {"bool": "bool", "int": "int32", "long": "int64", "float": "float32", "double": "float64"}
MOST: Final = 2**31 - 1  # instances of a kernel whose number is an int


@dataclass(frozen=True)
class Fit:
    """`values` of all value parameters, `shapes` of all arrays, by name."""

    values: dict[str, Value]
    shapes: dict[str, tuple[int, ...]]
    count: int


@dataclass(frozen=True)
class Arguments:
    arrays: dict[str, Array]
    values: dict[str, Value]
    count: int


class _Known(Rewrite):
    """Variables whose values are known become constants."""

    def __init__(self, scalars: Mapping[Variable, Value]) -> None:
        self._scalars = scalars

    def expression(self, one: Expression) -> Expression:
        if isinstance(one, Read) and one.variable in self._scalars:
            return Constant(one.at, one.type, self._scalars[one.variable])
        return super().expression(one)


def evaluated(expression: Expression, scalars: Mapping[Variable, Value]) -> int | None:
    """A size or a number of instances, as native code computes it; None while some value is not known."""
    return size_value(_Known(scalars).expression(expression))


def shape_of(object_: Object, scalars: Mapping[Variable, Value]) -> tuple[int, ...]:
    sizes = [evaluated(one, scalars) for one in object_.shape]
    assert None not in sizes, f"sizes of {object_.name} are not known"
    return tuple(one for one in sizes if one is not None)


def fitted(
    kernel: Kernel,
    arrays: Mapping[str, tuple[tuple[int, ...], str]],
    values: Mapping[str, Any],
    instances: int | None = None,
    file: str = "kernel.c",
) -> Fit:
    """`arrays`: shape and dtype of each that is given. Raises L702."""
    call = _Call(kernel, file)
    call.names(arrays, values)
    scalars = {one.of: call.value(one, values[one.name]) for one in kernel.values if one.name in values and isinstance(one.of, Variable)}
    if instances is not None:
        scalars[kernel.count] = call.instances(instances)
    for parameter in kernel.arrays:
        if parameter.name in arrays:
            call.array(parameter, *arrays[parameter.name])
    call.solve(scalars, {name: shape for name, (shape, _) in arrays.items()})
    call.missing(scalars)
    if instances is None:
        scalars[kernel.count] = call.count(scalars, {name: shape for name, (shape, _) in arrays.items()})
    shapes = {one.name: call.shape(one, scalars, arrays.get(one.name)) for one in kernel.arrays}
    told = {one.name: scalars[one.of] for one in kernel.values if isinstance(one.of, Variable)}
    check_assumptions(kernel, scalars, file)
    return Fit(told, shapes, call.instances(int(scalars[kernel.count])))


def check_assumptions(kernel: Kernel, scalars: Mapping[Variable, Value], file: str = "kernel.c") -> None:
    """That the conditions of `#pragma laminar assume` hold: what is proved of a kernel stands on them. Raises L702."""
    for one in kernel.assumptions:
        if evaluated(one, scalars) == 0:
            named = dict.fromkeys(part.variable for part in walk(one) if isinstance(part, Read))
            has = ", ".join(f"{variable.name} = {scalars[variable]}" for variable in named)
            said = f"{file}:{one.at.line}:{one.at.column}: the kernel assumes `{show(one)}`, and here {has}"
            raise LaminarError("L702", f"{said}\n{excerpt(kernel.text, one.at)}", hint="values for which it holds; or another assumption")


def checked(kernel: Kernel, given: Mapping[str, Any], file: str = "kernel.c") -> dict[str, Value]:
    """The values among what is given, where inputs may be missing. Raises L702: of arrays, too."""
    call, arrays = _Call(kernel, file), _arrays(kernel, given)
    values = {name: one for name, one in given.items() if name not in arrays}
    call.names(arrays, values, all_given=False)
    for one in kernel.arrays:
        if one.name in arrays:
            call.array(one, arrays[one.name].shape, arrays[one.name].dtype.name)
    return {one.name: call.value(one, values[one.name]) for one in kernel.values if one.name in values}


def _arrays(kernel: Kernel, given: Mapping[str, Any]) -> dict[str, Array]:
    return {name: one for name, one in given.items() if isinstance(one, np.ndarray) and _role(kernel, name) != "value"}


def arguments(kernel: Kernel, given: Mapping[str, Any], instances: int | None = None, file: str = "kernel.c") -> Arguments:
    """Outputs that are not given start as zeros."""
    arrays = _arrays(kernel, given)
    values = {name: one for name, one in given.items() if name not in arrays}
    fit = fitted(kernel, {name: (one.shape, one.dtype.name) for name, one in arrays.items()}, values, instances, file)
    made: dict[str, Array] = {}
    for one in kernel.arrays:
        if one.name in arrays:
            made[one.name] = np.ascontiguousarray(arrays[one.name], DTYPES[one.of.type])  # bytes in this machine's order
        else:
            made[one.name] = np.zeros(fit.shapes[one.name], DTYPES[one.of.type])
    _check_apart(kernel, made, file)
    return Arguments(made, fit.values, fit.count)


def _role(kernel: Kernel, name: str) -> str | None:
    return next((one.role for one in kernel.parameters if one.name == name), None)


def _check_apart(kernel: Kernel, arrays: Mapping[str, Array], file: str) -> None:
    """No two names are one thing: that is what everything that is proved of a kernel stands on."""
    for one in kernel.arrays:
        for other in kernel.arrays:
            if one.name != other.name and one.mode != "in" and np.may_share_memory(arrays[one.name], arrays[other.name]):
                said = f"{file}: `{one.name}` and `{other.name}` are the same memory, and `{one.name}` is written"
                raise LaminarError("L702", said, hint=f"a copy for `{other.name}`")


class _Call:
    """What is wrong with a call, and what follows from it."""

    def __init__(self, kernel: Kernel, file: str) -> None:
        self._kernel, self._file = kernel, file

    def fail(self, what: str, hint: str) -> NoReturn:
        raise LaminarError("L702", f"{self._file}: {what}", hint=hint)

    def names(self, arrays: Mapping[str, object], values: Mapping[str, object], *, all_given: bool = True) -> None:
        known = {one.name: one for one in self._kernel.parameters if one.role in ("value", "array")}
        for name in [*arrays, *values]:
            if name in (one.name for one in self._kernel.parameters[:2]):
                self.fail(f"`{name}` is the {'number of instances' if name == self._kernel.count.name else 'instance'}", "--instances N")
            if name not in known:
                self.fail(f"there is no parameter `{name}`; {did_you_mean(name, known)}", "laminar kernel check lists the parameters")
        for name, one in known.items():
            if one.role == "array" and name in values:
                self.fail(f"`{name}` is an array ({declared(one)}), and one number is given", f"--param {name}=@{name}.npy")
            if one.role == "value" and name in arrays:
                self.fail(f"`{name}` is one {one.of.type}, and an array is given", f"--param {name}=1")
            if all_given and one.role == "array" and one.mode != "out" and name not in arrays:
                what = "input" if one.mode == "in" else "array that is read and written"
                self.fail(f"the {what} `{name}` ({declared(one)}) is not given", f"--param {name}=@{name}.npy")

    def value(self, parameter: Parameter, given: Any) -> Value:
        type_, name = parameter.of.type, parameter.name
        plain = given.item() if isinstance(given, (np.generic, np.ndarray)) and np.ndim(given) == 0 else given
        if not isinstance(plain, (bool, int, float)):
            what = "an ndarray" if isinstance(plain, np.ndarray) else type(plain).__name__
            self.fail(f"`{name}` is one {type_}, and {what} is given", f"--param {name}=1")
        if type_ in WHOLE and isinstance(plain, float) and not plain.is_integer():
            self.fail(f"`{name}` is of type {type_}, and {plain} is given", "a whole number")
        if type_ in ("int", "long") and converted(int(plain), type_) != int(plain):
            self.fail(f"{plain} does not fit `{name}`, which is of type {type_}", f"{'long' if type_ == 'int' else 'double'} {name}")
        try:
            return converted(int(plain) if type_ in WHOLE else float(plain), type_)
        except OverflowError:
            self.fail(f"the whole number given for `{name}` does not fit a {type_}", "a smaller number")

    def instances(self, count: int) -> int:
        try:
            count = operator.index(count)
        except TypeError:
            self.fail(f"{count!r} instances", "a whole number: --instances N")
        if count < 1:
            self.fail(f"{count} instances", "1 or more: --instances N")
        if count > MOST and self._kernel.instance.type == "int":
            self.fail(f"{count:,} instances, and `{self._kernel.instance.name}` is an int", f"long {self._kernel.instance.name}")
        return count

    def array(self, parameter: Parameter, shape: tuple[int, ...], dtype: str) -> None:
        name, wanted = parameter.name, DTYPES[parameter.of.type]
        assert isinstance(parameter.of, Object)
        if dtype != wanted:
            self.fail(f"`{name}` is {dtype}, and the kernel takes {wanted} ({declared(parameter)})", f"{name}.astype('{wanted}')")
        if len(shape) != len(parameter.of.shape):
            has = f"{len(shape)} dimension{'s' * (len(shape) != 1)} {list(shape)}"
            self.fail(
                f"`{name}` has {has}, and the kernel takes {len(parameter.of.shape)} ({declared(parameter)})", _other(parameter, shape)
            )

    def solve(self, scalars: Scalars, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Values that follow from sizes: of `x[2 * n + 1]` with 9 elements, n is 4."""
        open_ = [
            (size, shapes[one.name][axis])
            for one in self._kernel.arrays
            if one.name in shapes and isinstance(one.of, Object)
            for axis, size in enumerate(one.of.shape)
        ]
        progress = True
        while progress:
            progress = False
            for size, has in open_:
                unknown = {part.variable for part in walk(size) if isinstance(part, Read) and part.variable not in scalars}
                if len(unknown) == 1:
                    (variable,) = unknown
                    found = _solved(size, variable, has, scalars)
                    if found is not None:
                        scalars[variable] = found
                        progress = True

    def missing(self, scalars: Scalars) -> None:
        for one in self._kernel.values:
            if one.of not in scalars:
                self.fail(f"the value `{one.name}` ({one.of.type}) is not given", f"--param {one.name}={_example(one.of.type)}")

    def count(self, scalars: Scalars, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """If nobody says; values are known."""
        kernel = self._kernel
        if kernel.instances is not None and (found := evaluated(kernel.instances, scalars)) is not None:
            return found
        if kernel.count in scalars:
            return int(scalars[kernel.count])
        for one in kernel.arrays:
            if one.mode != "in" and isinstance(one.of, Object):
                sizes = shapes.get(one.name) or [evaluated(size, scalars) for size in one.of.shape]
                if None not in sizes:
                    return math.prod(size for size in sizes if size is not None)
                break
        return self.fail("nothing tells the number of instances", "--instances N")

    def shape(self, parameter: Parameter, scalars: Scalars, given: tuple[tuple[int, ...], str] | None) -> tuple[int, ...]:
        assert isinstance(parameter.of, Object)
        sizes = [evaluated(one, scalars) for one in parameter.of.shape]
        wanted = tuple(-1 if one is None else one for one in sizes)
        if given is not None and given[0] != wanted:
            known = ", ".join(
                f"{variable.name} = {scalars[variable]}"
                for variable in dict.fromkeys(part.variable for size in parameter.of.shape for part in walk(size) if isinstance(part, Read))
            )
            why = f", with {known}" if known else ""
            self.fail(f"`{parameter.name}` has the shape {list(given[0])}, and the kernel takes {list(wanted)}{why}", "arrays that agree")
        if any(one < 1 for one in wanted):
            self.fail(f"`{parameter.name}` has the shape {list(wanted)}", "sizes of 1 or more")
        return wanted


def parameters(kernel: Kernel) -> list[dict[str, str | int | None]]:
    """As `kernel check` tells them."""
    return [
        {
            "name": one.name,
            "role": one.role,
            "type": one.of.type,
            "declared": declared(one),
            "mode": one.mode,
            "line": one.at.line,
            "column": one.at.column,
        }
        for one in kernel.parameters
    ]


def declared(parameter: Parameter) -> str:
    """As the kernel's text has it: `float x[n][3]`."""
    if isinstance(parameter.of, Variable):
        return f"{parameter.of.type} {parameter.name}"
    return f"{parameter.of.type} {parameter.name}{''.join(f'[{_size(one)}]' for one in parameter.of.shape)}"


def _size(expression: Expression) -> str:
    match expression:
        case Constant():
            return str(expression.value)
        case Read():
            return expression.variable.name
    return "…"


def _other(parameter: Parameter, shape: tuple[int, ...]) -> str:
    """For an array of another number of dimensions than the kernel has."""
    assert isinstance(parameter.of, Object)
    name, rank = parameter.name, len(parameter.of.shape)
    letters = "[n][m][k]" if len(shape) == 3 else "[n][m]" if len(shape) == 2 else "[n]" if len(shape) == 1 else ""
    reshaped = f"{name}.reshape({', '.join(['-1'] * rank) if rank == 1 else '…'})"
    return f"{reshaped}, with {rank} dimension{'s' * (rank != 1)}" + (
        f"; or {parameter.of.type} {name}{letters} in the kernel" if letters else ""
    )


def _example(type_: Type) -> str:
    return "true" if type_ == "bool" else "1" if type_ in WHOLE else "0.1"


def _solved(size: Expression, variable: Variable, has: int, scalars: Scalars) -> int | None:
    """Where the size grows evenly with the variable."""
    at = [evaluated(size, {**scalars, variable: one}) for one in (0, 1, 2)]
    if at[0] is None or at[1] is None or at[2] is None or at[2] - at[1] != at[1] - at[0] or at[1] == at[0]:
        return None
    found = (has - at[0]) // (at[1] - at[0])
    return found if evaluated(size, {**scalars, variable: found}) == has else None
