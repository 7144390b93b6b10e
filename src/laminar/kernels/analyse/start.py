"""What is known before the first statement: symbols of the parameters, shapes of arrays, and what is taken for granted of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from laminar.kernels.analyse.conditions import following, told
from laminar.kernels.analyse.form import Form, Symbol, product
from laminar.kernels.analyse.prove import LIMITS
from laminar.kernels.analyse.values import Values
from laminar.kernels.analyse.varying import Varying
from laminar.kernels.language.tree import WHOLE, Kernel, Object, Variable


@dataclass
class Start:
    """`said`: there are at most `number` instances, as the kernel's text says (`#pragma laminar instances`) or else as many as its first
    output has elements, and elements of an array can be counted with an int; else there is any number of both. `granted`: forms of values
    and count that are taken not to be negative."""

    kernel: Kernel
    said: bool
    values: Values
    instance: Symbol
    parameters: dict[Variable, Symbol]
    shapes: dict[Object, tuple[Form, ...]] = field(default_factory=dict)
    number: Form | None = None
    granted: list[Form] = field(default_factory=list)

    @staticmethod
    def of(kernel: Kernel, *, said: bool) -> Start:
        values = Values(Varying.of(kernel))
        symbols: dict[Variable, Symbol] = {}
        for one in kernel.parameters[1:]:
            if isinstance(one.of, Variable):
                type_ = one.of.type if one.of.type in WHOLE else "long"
                symbols[one.of] = values.symbol(one.name, "count" if one.role == "count" else "value", type_, False, variable=one.of)
        number = kernel.instance
        instance = symbols[number] = values.symbol(number.name, "instance", number.type, True, variable=number)
        values.now = {variable: Form.of(symbol) for variable, symbol in symbols.items()}
        made = Start(kernel, said, values, instance, symbols)
        made._contract()
        return made

    def _contract(self) -> None:
        """What holds whenever an instance runs."""
        values, prover, count = self.values, self.values.prover, Form.of(self.parameters[self.kernel.count])
        prover.bound(self.instance, Form({}), low=True)
        prover.bound(self.instance, count - 1, low=False)
        prover.learn(count - 1)
        given = {one.of for one in self.kernel.arrays}
        for one in self.kernel.objects:
            self.shapes[one] = shape = tuple(values.of(size) for size in one.shape)
            for size, said in zip(shape, one.shape, strict=True) if one in given else ():
                factors = [Form.of(symbol) for term in size.terms if len(term) > 1 for symbol in term]
                self._grant(*factors, size - 1, LIMITS[said.type][1] - size)
        for assumption in self.kernel.assumptions:
            for form in tuple(told(values, assumption, True)):
                prover.learn(form)
        self.number = self._number(count.latest())
        if self.said:
            self._grant(*(LIMITS["int"][1] - product(self.shapes[one.of]) for one in self.kernel.arrays if isinstance(one.of, Object)))
        if self.said and self.number is not None:
            type_ = self.kernel.instances.type if self.kernel.instances else self.kernel.count.type
            prover.bound(self.instance, self.number - 1, low=False)
            self._grant(self.number - count, self.number - 1, LIMITS[type_][1] - self.number)

    def _number(self, count: Symbol) -> Form | None:
        """How many instances there are if nobody says; None if arrays tell, whose sizes name the count."""
        if self.kernel.instances is not None:
            return self.values.of(self.kernel.instances)
        first = next((one.of for one in self.kernel.arrays if one.mode != "in" and isinstance(one.of, Object)), None)
        if first is None or any(count in size.symbols for shape in self.shapes.values() for size in shape):
            return None
        return product(self.shapes[first])

    def _grant(self, *forms: Form) -> None:
        self.granted += [one for one in dict.fromkeys(forms) if one.known is None and one not in self.granted]
        for one in forms:
            for more in tuple(following(self.values, one)):
                self.values.prover.learn(more)
