"""Buckets: gradients in a few flat tensors, each on its way to the other members as soon as it is complete.

Backward passes give the last parameters' gradients first, so buckets are filled from the end of the model, and while one is being summed
over the team the next is being computed (Li et al., "PyTorch Distributed", VLDB 2020). All members must send in the same order: a
bucket waits for those before it, and what a backward pass did not reach is sent when the step is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.parallel.meeting import Broken
from laminar.parallel.sync.bucket_sizes import FIRST, LATER, dealt
from laminar.parallel.sync.process_group import Sending


@dataclass
class _Bucket:
    flat: Tensor
    missing: int = 0
    sending: Sending | None = None


@final
class Buckets:
    def __init__(
        self, named: Mapping[str, nn.Parameter], start_sum: Callable[[Tensor], Sending], *, first: int = FIRST, later: int = LATER
    ) -> None:
        params = list(named.values())
        self._names, self._params, self._start = list(named), params, start_sum
        self._buckets: list[_Bucket] = []
        self._of: dict[int, _Bucket] = {}
        self.views: list[Tensor] = [torch.empty(0)] * len(params)
        for bucket in dealt([p.nbytes for p in params], first, later):
            flat = params[bucket[0]].new_empty(sum(params[i].numel() for i in bucket))
            made, at = _Bucket(flat), 0
            self._buckets.append(made)
            for i in bucket:
                self.views[i] = flat[at : at + params[i].numel()].view(params[i].shape)
                self._of[i] = made
                at += params[i].numel()
        self._filled: set[int] = set()
        self._sent, self._complete = 0, False
        self._broken: Broken | None = None
        self._twice: int | None = None
        for i, parameter in enumerate(params):
            parameter.register_post_accumulate_grad_hook(self._hook(i))  # type: ignore[no-untyped-call]
        self.reset()

    def reset(self) -> None:
        self._filled.clear()
        self._sent, self._complete = 0, False
        for bucket in self._buckets:
            bucket.sending, bucket.missing = None, 0
        for bucket in self._of.values():
            bucket.missing += 1

    def begin(self, *, complete: bool) -> None:
        """A backward pass follows; after a `complete` one the gradients it computed are those of the step."""
        self._complete = complete

    def flush(self) -> None:
        """Send what was not."""
        if self._twice is not None:
            raise LaminarError(
                "L606",
                f"the gradient of '{self._names[self._twice]}' came twice in one backward pass, as with re-entrant checkpointing",
                hint='link = "memory" in strategy, or use_reentrant=False',
            )
        for i in self._of:
            if i not in self._filled:
                self._fill(i)
        self._send()
        if self._broken is not None:
            raise self._broken

    def wait(self) -> None:
        """Now `views` are the sums over the team."""
        for bucket in self._buckets:
            assert bucket.sending is not None
            bucket.sending.wait()

    def _hook(self, i: int) -> Callable[[Tensor], None]:
        def ready(_: Tensor) -> None:
            if not self._complete:
                return
            if i in self._filled:
                self._twice = i
                return
            self._fill(i)
            self._send()

        return ready

    def _fill(self, i: int) -> None:
        grad, view = self._params[i].grad, self.views[i]
        view.zero_() if grad is None else view.copy_(grad)
        self._filled.add(i)
        self._of[i].missing -= 1

    def _send(self) -> None:
        # Called within backward, where an error would be taken for the model's: it is told when the step is made.
        while self._broken is None and self._sent < len(self._buckets) and not self._buckets[self._sent].missing:
            bucket = self._buckets[self._sent]
            try:
                bucket.sending = self._start(bucket.flat)
            except Broken as error:
                self._broken = error
            self._sent += 1
