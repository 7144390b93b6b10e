"""What proofs take for granted of a run, and whether a run keeps to it.

Sizes of arrays are 1 or more, computed without wrapping around; what is multiplied in them is not negative. With `said` also: there are
no more instances than the text says, or the first output has elements; and elements of an array can be counted with an int.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laminar.kernels.analyse.form import Form, Symbol
from laminar.kernels.analyse.prove import LIMITS
from laminar.kernels.analyse.start import Start
from laminar.kernels.language.tree import WHOLE, Kernel


@dataclass(frozen=True)
class Granted:
    """Forms of the kernel's values and count that are not negative."""

    forms: tuple[Form, ...]
    symbols: Mapping[str, Symbol]
    count: Symbol

    @staticmethod
    def of(kernel: Kernel, *, said: bool = False) -> Granted:
        start = Start.of(kernel, said=said)
        whole = {one.name: start.parameters[one.of] for one in kernel.values if one.of in start.parameters and one.of.type in WHOLE}
        return Granted(tuple(start.granted), whole, start.parameters[kernel.count])

    def broken(self, values: Mapping[str, bool | int | float], count: int) -> Form | None:
        """The first that does not hold; None if a run with these values and so many instances keeps to all."""
        numbers = {symbol: int(values[name]) for name, symbol in self.symbols.items()} | {self.count: count}
        return next((one for one in self.forms if (value := _value(one, numbers)) is None or value < 0), None)


def _value(form: Form, numbers: dict[Symbol, int]) -> int | None:
    """None: it wraps around."""
    for symbol in form.symbols - numbers.keys():
        of = _value(symbol.of, numbers) if symbol.of is not None else None
        by = _value(symbol.by, numbers) if symbol.by is not None else 1
        if of is None or by is None or (symbol.kind == "wrapped" and not LIMITS[symbol.type][0] <= of <= LIMITS[symbol.type][1]):
            return None
        quotient = 0 if by == 0 else abs(of) // abs(by) * (1 if (of < 0) == (by < 0) else -1)
        numbers[symbol] = of - quotient * by if symbol.kind == "rest" and by else 0 if by == 0 else quotient
    return form.value(numbers)
