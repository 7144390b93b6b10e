"""A kernel with barriers as native code, phase by phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from laminar.kernels.arguments import Array, Value
from laminar.kernels.circuit.phases import phases, run_plan
from laminar.kernels.compile.native import DEFAULT, Options, Scalar
from laminar.kernels.compile.variants import Variants
from laminar.kernels.language.tree import Kernel


@final
class NativePhases:
    """Called as compile.native.Native is."""

    def __init__(self, kernel: Kernel, options: Options = DEFAULT, *, file: str = "kernel.c") -> None:
        """Raises KernelError (K16) if not all instances reach a barrier."""
        self.kernel, self._plan = kernel, phases(kernel, file)
        self._code = {id(one): Variants(one, options, file=file) for one in self._plan.phases}
        self._each = [one.several for one in self._code.values()]

    @property
    def independent(self) -> bool:
        """Of instances, between two barriers."""
        return all(one.independent for one in self._each)

    @property
    def described(self) -> str:
        each = dict.fromkeys(one.described for one in self._each)
        return f"{len(self._each)} phases: {', '.join(each)}" if len(self._each) > 1 else next(iter(each))

    def run(self, arrays: Sequence[Array], values: Sequence[Scalar], count: int, threads: int = 1) -> None:
        """As Native.run."""

        def phase(kernel: Kernel, every: dict[str, Array], named: Mapping[str, Value], count: int) -> None:
            ordered = [every[one.name] for one in kernel.arrays]
            self._code[id(kernel)].of(count).run(ordered, [named[one.name] for one in kernel.values], count, threads)

        given = {one.name: array for one, array in zip(self.kernel.arrays, arrays, strict=True)}
        named = {one.name: value for one, value in zip(self.kernel.values, values, strict=True)}
        run_plan(self._plan, phase, given, named, count)
