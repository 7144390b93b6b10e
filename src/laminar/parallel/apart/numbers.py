"""Numbers: what a server holds of the model, and the steps it makes of packets.

    gradients   quorum, downpour: the recipe's optimizer on their weighted mean
    distances   averaging: start - end of each worker; an outer step (../outer.py)
                downpour with `push = "steps"`: the sum of a worker's own steps since its last push, which is made here too

No tensor here has a gradient of its own, so nothing says no_grad: that would take as long as a small operation, each time.
A step that is shorter because its gradients are old has a lower rate, not smaller gradients: Adam and its kin would not notice those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol, final

import numpy as np
import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.parallel import buffer_row
from laminar.parallel.aggregate.messages import Part
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.packet import Packet
from laminar.parallel.compress.protocol import Compressor
from laminar.parallel.outer import Outer
from laminar.parallel.restore import restore, under
from laminar.train.optimizers import new_state, update_rule, update_those
from laminar.train.recipe import Recipe

BY_TENSOR: Final = ("lars", "lamb")
COUNT: Final = "count"  # the slot that has one number for each tensor; the others are as large as it


class Stepper(Protocol):
    """Makes a step of `total`, the mean of what came, which it may use up."""

    def step(self, row: Tensor, total: Tensor, rate: float, share: float, idle: Collection[int] = ()) -> None:
        """`idle`: tensors of which nobody had a gradient, by number."""

    def state(self) -> dict[str, Tensor]: ...
    def load(self, saved: Mapping[str, Tensor]) -> None: ...


@final
class OptimizerStep:
    """The recipe's rule. Where momentum, clipping and decay are in the packets already, only `w -= lr * g` is left.

    A row is stepped as if it were one tensor, which is faster, until a tensor of it is left alone for the first time.
    """

    def __init__(self, recipe: Recipe, row: Tensor, layout: Layout, *, clip: float | None, by_tensor: bool = False) -> None:
        """`by_tensor`: gradients come as one tensor for each of the layout's (`step_of`), not in one row."""
        self._clip, self._parts = clip, layout.parts
        self._slots = {slot: tensor for slot, (tensor,) in new_state(recipe, [row]).items()}
        self._views, self._state = [row], [[tensor] for tensor in self._slots.values()]
        self._by_tensor = False
        if by_tensor or recipe.optimizer in BY_TENSOR:
            self._take_apart()
        self._update = update_rule(recipe, self._views)
        self._total, self._pieces = row, self._views  # tensors of the gradient that came last

    def _take_apart(self) -> None:
        (row,) = self._views
        self._by_tensor, self._views = True, [part.of(row) for part in self._parts]
        self._state = [
            [tensor.clone() for _ in self._parts] if slot == COUNT else [part.of(tensor) for part in self._parts]
            for slot, tensor in self._slots.items()
        ]

    def step(self, row: Tensor, total: Tensor, rate: float, share: float, idle: Collection[int] = ()) -> None:  # noqa: ARG002
        """The row is the one that it was made for."""
        if self._clip is not None:
            norm = float(total.norm())
            if not math.isfinite(norm):
                raise LaminarError("L601", f"the norm of the gradients is {norm}", hint="lower lr in train")
            if norm > self._clip:
                total.mul_(self._clip / (norm + 1e-6))
        if idle and not self._by_tensor:
            self._take_apart()
        if not self._by_tensor:
            self.step_of([total], rate * share)
            return
        if total is not self._total:
            self._total, self._pieces = total, [part.of(total) for part in self._parts]
        # What compression had kept back may have come all the same.
        self.step_of([None if i in idle and not bool(one.any()) else one for i, one in enumerate(self._pieces)], rate * share)

    def step_of(self, grads: Sequence[Tensor | None], rate: float) -> None:
        """A tensor without a gradient is left alone: neither decay nor momentum moves it, as torch.optim has it."""
        update_those(self._update, self._views, grads, self._state, rate)

    def state(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for (slot, tensor), tensors in zip(self._slots.items(), self._state, strict=True):
            found |= {f"{slot}/{i}": one for i, one in enumerate(tensors)} if slot == COUNT else {f"{slot}/0": tensor}
        return found

    def load(self, saved: Mapping[str, Tensor]) -> None:
        if f"{COUNT}/1" in saved and not self._by_tensor:
            self._take_apart()
        restore("the server's optimizer", self.state(), saved)


@final
class OuterStep:
    """An outer optimizer on the mean of the workers, which is start - mean distance."""

    def __init__(self, outer: Outer) -> None:
        self._outer = outer

    def step(self, row: Tensor, total: Tensor, rate: float, share: float, idle: Collection[int] = ()) -> None:  # noqa: ARG002
        """Its rate is its own. Workers have left alone what is idle, so the distance is 0."""
        self._outer.step(row, torch.sub(row, total, out=total))

    def state(self) -> dict[str, Tensor]:
        return self._outer.state()

    def load(self, saved: Mapping[str, Tensor]) -> None:
        self._outer.load(saved)


@final
class AddedSteps:
    """Steps that a worker's own optimizer has made are made again; shorter, if they are old."""

    def step(self, row: Tensor, total: Tensor, rate: float, share: float, idle: Collection[int] = ()) -> None:  # noqa: ARG002
        """The rate is in them."""
        row.sub_(total, alpha=share)

    def state(self) -> dict[str, Tensor]:
        return {}

    def load(self, saved: Mapping[str, Tensor]) -> None:
        restore("the server's optimizer", self.state(), saved)


@final
class Numbers:
    """The row of parameters, gradients that are held, and the newest buffers of each worker."""

    def __init__(
        self,
        layout: Layout,
        decoder: Compressor,
        make_step: Callable[[Tensor], Stepper],
        rate: Callable[[int], float],
        buffers: int,
        smooth: int = 0,
    ) -> None:
        """`smooth`: batches over which the row is averaged for the layer; 0: it is the row."""
        self.row = torch.zeros(layout.numel)
        self._smooth = smooth
        self._mean = torch.zeros_like(self.row) if smooth else self.row
        self._decoder, self._rate = decoder, rate
        self._step = make_step(self.row)
        self._total = torch.zeros_like(self.row)
        self._decoded = ""  # the payload that alone is in `_total`
        self.held: dict[str, bytes] = {}
        self.buffer_count = buffers
        self.buffers: dict[str, Tensor] = {}  # float64, flat, by worker
        self.opening: Tensor | None = None  # their mean when the round was opened: whoever begins it later begins with the same
        self.lr = 0.0  # of the last step

    def check(self, payload: str, packet: memoryview) -> None:
        """BadPacket unless it can be decoded: before anything is decided about it. Most often it is a step by itself, and decoded once."""
        self._decoded = ""
        self._total.zero_()
        self._decoder.decode(Packet.parse(packet), self._total)
        self._decoded = payload

    def hold(self, payload: str, packet: memoryview) -> None:
        self.held[payload] = bytes(packet)

    def drop(self, payload: str) -> None:
        self.held.pop(payload, None)

    def apply(self, parts: Sequence[Part], arrived: tuple[str, memoryview] | None, position: int, idle: Collection[int] = ()) -> None:
        """One step of the parts; `arrived` is the one that need not have been held. `position`: batches before it. `idle`: tensors of
        which no part has a gradient."""
        share = sum(part.weight for part in parts)
        if len(parts) > 1 or parts[0].payload != self._decoded:
            self._total.zero_()
            for part in parts:
                packet = arrived[1] if arrived is not None and part.payload == arrived[0] else self.held.pop(part.payload)
                if len(packet):
                    self._decoder.decode(Packet.parse(packet), self._total, scale=part.weight / share)
        else:
            self.held.pop(parts[0].payload, None)
        self._decoded = ""
        self.lr = self._rate(position)
        self._step.step(self.row, self._total, self.lr, share, idle)

    @property
    def layer(self) -> Tensor:
        """What the layer is to have of this shard."""
        return self._mean

    @torch.no_grad()
    def begin(self, params: Mapping[str, Tensor], layout: Layout) -> None:
        for part in layout.parts:
            part.of(self.row).copy_(params[part.name])
        self._mean.copy_(self.row)

    def stepped(self, position: int, batches: int) -> None:
        """The last step was of so many batches, after `position` before it. Exponential weights; at first the plain mean of all so far."""
        if self._smooth and batches:
            self._mean.lerp_(self.row, max(-math.expm1(-batches / self._smooth), batches / (position + batches)))

    def fits(self, data: memoryview) -> bool:
        return len(data) in (0, 8 * self.buffer_count)

    def take_buffers(self, worker: str, data: memoryview) -> None:
        if len(data):
            self.buffers[worker] = torch.from_numpy(np.frombuffer(data, dtype=np.float64).copy())

    def lose_buffers(self, worker: str) -> None:
        """Of a worker that is gone they would be older and older; but something is better than nothing."""
        if len(self.buffers) > 1:
            self.buffers.pop(worker, None)

    def mean_buffers(self) -> Tensor | None:
        """Of the newest of each worker."""
        return buffer_row.mean(torch.stack(list(self.buffers.values()))) if self.buffers else None

    def state(self) -> dict[str, Tensor]:
        found = {**self._rows(), **{f"step/{name}": tensor for name, tensor in self._step.state().items()}}
        found |= {f"held/{name}": torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy()) for name, data in self.held.items()}
        found |= {} if self.opening is None else {"opening": self.opening}
        return found | {f"buffers/{worker}": tensor for worker, tensor in self.buffers.items()}

    def _rows(self) -> dict[str, Tensor]:
        return {"row": self.row, "mean": self._mean} if self._smooth else {"row": self.row}

    def load(self, saved: Mapping[str, Tensor]) -> None:
        restore("the server's shard", self._rows(), {name: saved[name] for name in ("row", "mean") if name in saved})
        self._step.load(under(saved, "step/"))
        self.held = {name: tensor.numpy().tobytes() for name, tensor in under(saved, "held/").items()}
        self.opening = saved.get("opening")
        self.buffers = {name: tensor.clone() for name, tensor in under(saved, "buffers/").items()}
