"""Native code of one kernel for one instance, and for several side by side: of a vector in which one lane counts nothing is gained."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import cached_property
from typing import final

from laminar.kernels.compile.native import DEFAULT, Native, Options, compiled
from laminar.kernels.language.tree import Kernel


@final
class Variants:
    """Each is compiled when it is first asked for. Raises KernelError then."""

    def __init__(self, kernel: Kernel, options: Options = DEFAULT, *, file: str = "kernel.c") -> None:
        self.kernel, self.options, self.file = kernel, options, file
        self._lock = threading.Lock()

    def of(self, instances: int) -> Native:
        """For so many instances that run together."""
        with self._lock:  # threads of a circuit come at once
            return self.scalar if instances == 1 else self.several

    @cached_property
    def several(self) -> Native:
        """Instances as lanes, where that was planned."""
        return compiled(self.kernel, self.options, file=self.file)

    @cached_property
    def scalar(self) -> Native:
        """One instance after another."""
        if "several" in self.__dict__ and self.several.plan is None:
            return self.several
        return compiled(self.kernel, replace(self.options, lanes=False), file=self.file)
