"""KernelModule: a kernel with its values as a module of a model. Values that are tensors become parameters of it, and are trained."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor, nn

from laminar.kernels.operator.function import KernelFunction


@final
class KernelModule(nn.Module):
    def __init__(self, function: KernelFunction, **values: Any) -> None:
        super().__init__()
        self.function = function
        self.values = {name: value for name, value in values.items() if not isinstance(value, Tensor)}
        self.trained = tuple(name for name in values if name not in self.values)
        for name in self.trained:
            value = values[name]
            self.register_parameter(name, value if isinstance(value, nn.Parameter) else nn.Parameter(value))

    def forward(self, *tensors: Tensor) -> Any:
        return self.function(*tensors, **self.values, **{name: getattr(self, name) for name in self.trained})

    def extra_repr(self) -> str:
        return ", ".join([self.function.file, *(f"{name}={value}" for name, value in self.values.items())])
