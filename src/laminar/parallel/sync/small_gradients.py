"""Small gradients: a member's side of compression, the same over shared memory and between machines.

A packet stands for the sender's own gradient, and the team's is the mean over the senders (compress/protocol.py). The loop has already
multiplied each gradient by the share that the member's rows have of the batch, so that they add up; times the number of members
it is "the own one" again, also where the shares differ: mean(N * share * gradient) = sum(share * gradient).
What a packet leaves out stays here and is part of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

import msgspec
import torch
from torch import Tensor

from laminar.core.errors import LaminarError
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.local_clip import Decaying
from laminar.parallel.compress.make import make_compressor
from laminar.parallel.compress.packet import BadPacket, Buffer, Packet
from laminar.parallel.compress.powersgd import LowRank
from laminar.train.compression import NoCompression
from laminar.train.recipe import Recipe
from laminar.train.strategies import ManySpec, strategy

HAD: Final = "had"  # beside the compressor's state: which parameters have had a gradient, and decay


def rule_behind(recipe: Recipe) -> Recipe:
    """The recipe by which summed gradients are applied: where packets have momentum, clipping and decay in them, without these."""
    how = strategy(recipe.strategy)
    if not isinstance(how, ManySpec) or not how.compression.needs_sgd:
        return recipe
    return msgspec.structs.replace(recipe, momentum=None, nesterov=None, weight_decay=0.0, clip=None)


@final
class SmallGradients:
    def __init__(self, recipe: Recipe, params: Mapping[str, Tensor], size: int) -> None:
        how, settings = strategy(recipe.strategy), recipe.settings()
        assert isinstance(how, ManySpec)
        self.layout = Layout.of({name: p.shape for name, p in params.items()})
        self._compressor = make_compressor(
            how.compression,
            self.layout,
            workers=size,
            momentum=settings.get("momentum", 0.0),
            nesterov=settings.get("nesterov", False),
            clip=recipe.clip,
            weight_decay=settings["weight_decay"],
            seed=recipe.seed,
        )
        self._size = size
        self._decaying = Decaying(self.layout)
        self._params = list(params.values())
        self._flat, self._own = self._room()
        self._sum, self.result = self._room()  # what came of an exchange, by parameter
        self._weights = self._room() if self._compressor.takes_momentum and settings["weight_decay"] else None

    @classmethod
    def wanted(cls, recipe: Recipe, params: Mapping[str, Tensor], size: int) -> SmallGradients | None:
        how = strategy(recipe.strategy)
        return None if not isinstance(how, ManySpec) or isinstance(how.compression, NoCompression) else cls(recipe, params, size)

    def _room(self) -> tuple[Tensor, list[Tensor]]:
        flat = torch.zeros(self.layout.numel)
        return flat, [part.of(flat) for part in self.layout.parts]

    @property
    def by_sums(self) -> bool:
        """Is nothing sent but what is added up on the way (PowerSGD)? Then `exchange` is to be used, otherwise `encode`."""
        return isinstance(self._compressor, LowRank)

    def encode(self, grads: Sequence[Tensor | None], epoch: float) -> Packet:
        self._take(grads)
        weights = None
        if self._weights is not None:
            weights, own = self._weights
            torch._foreach_copy_(own, self._params)
            weights = self._decaying.weights(weights, [i for i, grad in enumerate(grads) if grad is None])
        return self._compressor.encode(self._flat, epoch_progress=epoch, weights=weights)

    def decode(self, packets: Sequence[Packet | Buffer]) -> None:
        """`result` becomes the share that these packets have of the mean over the team."""
        self._sum.zero_()
        for rank, packet in enumerate(packets):
            try:
                whole = packet if isinstance(packet, Packet) else Packet.parse(packet)
                self._compressor.decode(whole, self._sum, 1 / self._size)
            except BadPacket as error:
                raise LaminarError("L403", f"the packet of worker {rank} is damaged: {error}", hint="laminar build again") from error

    def exchange(self, grads: Sequence[Tensor | None], add_up: Callable[[Tensor], None]) -> int:
        """`result` becomes the mean over the team; the bytes that this member gave to `add_up`, which sums a tensor over it."""
        assert isinstance(self._compressor, LowRank)
        self._take(grads)

        def mean(tensor: Tensor) -> None:
            add_up(tensor)
            tensor.div_(self._size)

        sent = self._compressor.all_reduce(self._flat, mean)
        self._sum.copy_(self._flat)
        return sent

    def _take(self, grads: Sequence[Tensor | None]) -> None:
        for own, grad in zip(self._own, grads, strict=True):
            own.zero_() if grad is None else own.copy_(grad)
        self._flat.mul_(self._size)

    def has(self, grads: Sequence[Tensor | None]) -> list[bool]:
        """Of which parameters there is a gradient: computed in this step, or kept back from earlier ones and sent now."""
        return [grad is not None or bool(sent.any()) for grad, sent in zip(grads, self.result, strict=True)]

    def residual(self) -> dict[str, Tensor]:
        state = self._compressor.state()
        return state | {HAD: self._decaying.had()} if state and self._weights is not None else state

    def load(self, members: Sequence[Mapping[str, Tensor]], rank: int) -> None:
        """What a team was saved with. In a team of another size each member takes the mean, so that the mean of all is what it was:
        nothing that was kept back is lost with a member, or counted twice."""
        if len(members) == self._size:
            own = dict(members[rank])
        else:
            own = {name: _joined(name, [one[name] for one in members], rank) for name in (members[0] if members else ())}
        if (had := own.pop(HAD, None)) is not None:
            self._decaying.load(had)
        if own or len(members) == self._size:
            self._compressor.load(own)


def _joined(name: str, tensors: Sequence[Tensor], rank: int) -> Tensor:
    if name == HAD:
        return torch.stack(list(tensors)).amax(0)
    if name.startswith("q/") or not tensors[0].is_floating_point():  # a direction to start from, or a number of steps: anybody's will do
        return tensors[rank % len(tensors)]
    return torch.stack(list(tensors)).mean(0)
