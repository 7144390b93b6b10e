"""A team over torch.distributed: every member has the whole model and makes the whole step, on the sum of all gradients.

    backward, buckets on their way - loss, wishes and who has a gradient of what - wait - clip - step

With compression packets are gathered by all, and each decodes them in the order of the ranks: so all members have the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, final

import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.parallel import buffer_row
from laminar.parallel.compress.packet import Packet
from laminar.parallel.sync.bucket_sizes import dealt
from laminar.parallel.sync.buckets import Buckets
from laminar.parallel.sync.process_group import Group
from laminar.parallel.sync.row_facts import RowFacts
from laminar.parallel.sync.sent_bytes import of_step
from laminar.parallel.sync.small_gradients import SmallGradients, rule_behind
from laminar.parallel.sync.statistics_room import GroupRoom
from laminar.parallel.sync.team_statistics import TeamStatistics
from laminar.parallel.waited import WAITED
from laminar.train.optimizers import Optimizer
from laminar.train.recipe import Recipe
from laminar.train.team import NOTHING, Step, WholeModel, blamed

LOSS, WISH = 0, 1
HEAD: Final = 2  # then: bytes of each member's packet, for each parameter whether it has a gradient, and now and then who was busy how long
# Without packets there is 1 for a member whose gradient is not finite: once they are summed up, nobody could tell whose it was.


@final
class GroupTeam(WholeModel):
    def __init__(self, group: Group, facts: RowFacts | None = None, between: Group | None = None) -> None:
        """`facts`: where statistics are those of whole batches. `between`: the group that they are exchanged in, if another one."""
        self.rank, self.size = group.rank, group.size
        self._group = group
        self._buckets: Buckets | None = None
        self._statistics = None if facts is None else TeamStatistics(GroupRoom(between or group), group.rank, facts)

    @property
    def pooled(self) -> TeamStatistics | None:
        return self._statistics

    @property
    def waited(self) -> float:
        return WAITED.seconds

    def optimizer(self, recipe: Recipe, params: Mapping[str, nn.Parameter]) -> GroupOptimizer:
        made = GroupOptimizer(recipe, params, self._group, self._statistics)
        self._buckets = made.buckets
        return made

    def before_backward(self, *, last: bool) -> None:
        if self._buckets is not None:
            self._buckets.begin(complete=last)

    def sum(self, own: Sequence[float]) -> list[float]:
        numbers = torch.tensor(list(own), dtype=torch.float64)
        self._group.add_up(numbers)
        return [float(number) for number in numbers]

    def gather(self, own: bytes) -> list[bytes]:
        sizes = [len(own) if rank == self.rank else 0 for rank in range(self.size)]
        found = self._group.to_first(_as_tensor(own), [int(size) for size in self.sum(sizes)])
        return [one.numpy().tobytes() for one in found]

    @torch.no_grad()
    def share_buffers(self, buffers: Mapping[str, Tensor]) -> None:
        tracked = set() if self._statistics is None else self._statistics.tracked
        # Running statistics are the same in all but those that had no rows of the last batch, which member 0 has.
        whole = [tensor for name, tensor in buffers.items() if buffer_row.is_whole(tensor) or name in tracked]
        real = [tensor for name, tensor in buffers.items() if not (buffer_row.is_whole(tensor) or name in tracked)]
        if real:
            row = buffer_row.row_of(real)
            first = row.clone()
            self._group.from_first(first)
            apart = torch.where(row == first, 0.0, row - first)  # so that what all say stays what it is, to the bit
            self._group.add_up(apart)
            buffer_row.put_back(real, first.add_(apart.div_(self.size)))
        for tensor in whole:
            self._group.from_first(tensor)


@final
class GroupOptimizer:
    def __init__(self, recipe: Recipe, params: Mapping[str, nn.Parameter], group: Group, statistics: TeamStatistics | None = None) -> None:
        self._statistics = statistics
        self.params = dict(params)
        self._list = list(self.params.values())
        self._group = group
        self._small = SmallGradients.wanted(recipe, self.params, group.size)
        rule = rule_behind(recipe)
        self._clip = rule.clip
        self._optimizer = Optimizer(rule, self.params)
        self.buckets = Buckets(self.params, group.start_sum) if self._small is None else None
        sizes = [p.nbytes for p in self._list]
        self._dense = [sum(sizes[i] for i in bucket) for bucket in dealt(sizes)]
        self.dense_bytes: int | None = of_step(group.size, told=HEAD + group.size + len(sizes), sums=self._dense)
        self._astray: list[int] = []
        for parameter in self._list:
            group.from_first(parameter.data)

    def gradients(self) -> list[Tensor]:
        return self._optimizer.gradients()

    @torch.no_grad()
    def step(self, lr: float, *, loss: float = 0.0, epoch: float = 0.0, wish: int = NOTHING, busy: float | None = None) -> Step:
        rank, size = self._group.rank, self._group.size
        grads = [p.grad for p in self._list]
        times = [] if busy is None else [busy if member == rank else 0.0 for member in range(size)]
        told = [loss, wish if not rank else NOTHING, *([0.0] * size), *(float(g is not None) for g in grads), *times]
        self.dense_bytes = sent = of_step(size, told=len(told), sums=self._dense)
        if self.buckets is not None:
            heard = self._sum(self.buckets, grads, told)
            self._astray = [member for member, wrong in enumerate(heard[HEAD : HEAD + size]) if wrong]
            sums = self.buckets.views
        else:
            assert self._small is not None
            heard, sent = self._compressed(self._small, grads, told, epoch)
            sums = self._small.result
        behind = HEAD + size + len(grads)
        for p, have, total in zip(self._list, heard[HEAD + size : behind], sums, strict=True):
            # nobody has a gradient of it, and nothing was kept back: it is left alone, as one process leaves it
            p.grad = total if have or (self._small is not None and bool(total.any())) else None
        if self._clip is not None:
            norm = float(nn.utils.clip_grad_norm_(self._list, self._clip))
            if not math.isfinite(norm):
                raise LaminarError("L601", f"the norm of the gradients is {norm}{blamed(self._astray)}", hint="lower lr in train")
        self._optimizer.step(lr)
        if self._statistics is not None:
            of_batches = self._statistics.sent_since()
            sent, self.dense_bytes = sent + of_batches, self.dense_bytes + of_batches
        return Step(heard[LOSS], int(heard[WISH]), sent, heard[behind:])

    def _sum(self, buckets: Buckets, grads: Sequence[Tensor | None], told: list[float]) -> list[float]:
        buckets.flush()
        own = [grad for grad in grads if grad is not None]
        if own and not math.isfinite(float(torch.stack(torch._foreach_norm(own)).sum())):  # while the buckets travel
            told[HEAD + self._group.rank] = 1.0
        heard = torch.tensor(told, dtype=torch.float64)
        sending = self._group.start_sum(heard)
        buckets.wait()
        sending.wait()
        return heard.tolist()

    def _compressed(
        self, small: SmallGradients, grads: Sequence[Tensor | None], told: list[float], epoch: float
    ) -> tuple[list[float], int]:
        """What all have told, and the bytes that all have sent for the step."""
        rank, size = self._group.rank, self._group.size
        if small.by_sums:
            given: list[int] = []

            def add_up(tensor: Tensor) -> None:
                given.append(tensor.nbytes)
                self._group.add_up(tensor)

            small.exchange(grads, add_up)
            return self._heard(told), of_step(size, told=len(told), sums=given)
        packet = small.encode(grads, epoch)
        told[HEAD + rank] = packet.nbytes
        heard = self._heard(told)
        sizes = [int(length) for length in heard[HEAD : HEAD + size]]
        found = self._group.all_gather(padded(packet, max(sizes)))
        small.decode([one.numpy().data[:length] for one, length in zip(found, sizes, strict=True)])
        return heard, of_step(size, told=len(told), packet=max(sizes))

    def _heard(self, told: Sequence[float]) -> list[float]:
        heard = torch.tensor(told, dtype=torch.float64)
        self._group.add_up(heard)
        return heard.tolist()

    def zero_grad(self) -> None:
        self._optimizer.zero_grad()
        if self.buckets is not None:
            self.buckets.reset()

    def tensors(self) -> dict[str, Tensor]:
        return self._optimizer.tensors()

    def load(self, saved: Mapping[str, Tensor]) -> None:
        self._optimizer.load(saved)

    def residual(self) -> dict[str, Tensor]:
        return {} if self._small is None else self._small.residual()

    def load_residual(self, members: Sequence[Mapping[str, Tensor]]) -> None:
        if self._small is not None:
            self._small.load(members, self._group.rank)

    def astray(self) -> list[int]:
        return self._astray


def padded(packet: Packet, size: int) -> Tensor:
    """So many bytes: what is gathered has one size."""
    room = torch.zeros(size, dtype=torch.uint8)
    room[: packet.nbytes] = _as_tensor(packet.data)
    return room


def _as_tensor(data: bytes | memoryview) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
