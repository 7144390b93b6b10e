"""Deep Gradient Compression (Lin et al., ICLR 2018, arXiv 1712.01887), all of it. N workers, w weights, u and v start at 0:

    g = grad + decay*w                              # decay goes through the residual like everything else
    if |g| > clip*sqrt(N): g = g * clip*sqrt(N)/|g| # local clipping, before anything is accumulated
    u = mu*u + g;        v = v + u                  # momentum correction
    u = mu*(u + g);      v = v + u + g              # the same for Nesterov's momentum
    M = the largest of |v| in each tensor           # a threshold from a sample, as in largest.py
    send v[M];  v[M] = 0;  u[M] = 0                 # momentum factor masking
    everyone: w = w - lr * mean of what was sent    # plain SGD

The paper divides gradients by N when they are computed and adds them up; here they are divided when they are added, so that N is the
number of those who sent, and the limit of the paper, clip/sqrt(N), is N times as large. All steps but the limit are linear: nothing
else changes. In the first epochs fewer values are left out (`Dgc.ratio`). Values are sent as float16 unless the spec says otherwise, and
what that rounds away stays in v.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import torch
from torch import Tensor

from laminar.parallel.compress import checks, sparse
from laminar.parallel.compress.largest import largest
from laminar.parallel.compress.layout import Layout
from laminar.parallel.compress.local_clip import LocalClip
from laminar.parallel.compress.packet import CODINGS, Packet
from laminar.train.compression import Dgc


@final
class DeepGradientCompression:
    takes_momentum: Final = True

    def __init__(
        self,
        spec: Dgc,
        layout: Layout,
        *,
        workers: int,
        momentum: float = 0.0,
        nesterov: bool = False,
        clip: float | None = None,
        weight_decay: float = 0.0,
    ) -> None:
        self.layout = layout
        self._spec = spec
        self._coding = CODINGS[spec.values]
        self._momentum = momentum
        self._nesterov = nesterov
        self._clip = LocalClip(spec, workers=workers, clip=clip, weight_decay=weight_decay)
        self._state: dict[str, Tensor] = {}
        self.max_nbytes = sparse.max_nbytes(layout, self._coding)

    def encode(self, grad: Tensor, *, epoch_progress: float, weights: Tensor | None = None) -> Packet:
        ratio = self._spec.ratio(epoch_progress)
        checks.check_gradient(grad, self.layout)
        if weights is not None:
            checks.check_flat(weights, self.layout, "weights")
        self._clip([grad], None if weights is None else [weights])
        if self._clip.decay:
            checks.check_gradient(grad, self.layout)
        state = self._made()
        v = self._accumulate(grad, state)
        rest = v.numpy()
        at = largest(rest, self.layout, ratio, self._spec.sample, int(state["turn"]))
        state["turn"] += 1
        packet, sent = sparse.write(self.layout, at, rest[at], self._coding)
        rest[at] -= sent
        if self._momentum and self._spec.masking:
            state["u"].numpy()[at] = 0
        return packet

    def _accumulate(self, g: Tensor, state: dict[str, Tensor]) -> Tensor:
        v = state["v"]
        if not self._momentum:
            return v.add_(g)
        u = state["u"]
        if self._nesterov:
            u.add_(g).mul_(self._momentum)
            return v.add_(u).add_(g)
        torch.add(g, u, alpha=self._momentum, out=u)
        return v.add_(u)

    def decode(self, packet: Packet, out: Tensor, scale: float = 1.0) -> None:
        packet.expect_values(self._coding)
        sparse.add(packet, self.layout, out, scale)

    def state(self) -> dict[str, Tensor]:
        return dict(self._state)

    def load(self, state: Mapping[str, Tensor]) -> None:
        if state or self._state:
            checks.load_state(self._made(), state)

    def _made(self) -> dict[str, Tensor]:
        if not self._state:
            names = ("u", "v") if self._momentum else ("v",)
            self._state = {name: torch.zeros(self.layout.numel) for name in names} | {"turn": torch.zeros((), dtype=torch.int64)}
        return self._state
