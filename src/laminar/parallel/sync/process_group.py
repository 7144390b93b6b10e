"""Process group: torch.distributed between the members of a team, on one machine or several. Gloo, and NCCL for tensors on GPUs.

Members find each other through a store that the chief serves on its host and port. A member that dies breaks the connections of
those that wait for it, and one that stalls is waited for no longer than the timeout: both are Broken, and the chief goes on without it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, final

import torch
import torch.distributed
from torch import Tensor

from laminar.parallel.meeting import Broken
from laminar.parallel.waited import WAITED
from laminar.parallel.wire.addresses import listen

dist: Any = torch.distributed  # much of it has no types
BEGIN: Final = 600.0  # seconds until all have opened the job


def serve_store(host: str, port: int | None) -> Any:
    """L405 if the port is in use, or the host none of this machine. Served until it is forgotten; `port` of it tells where."""
    listener = listen(f"{host}:{port or 0}")
    port = listener.getsockname()[1]
    return dist.TCPStore(host, port, None, True, timedelta(seconds=BEGIN), wait_for_workers=False, master_listen_fd=listener.detach())


@final
class Sending:
    """Something that is under way."""

    def __init__(self, work: Any) -> None:
        """`work`: torch's; None: there is nothing to do."""
        self._work = work

    def wait(self) -> None:
        if self._work is None:
            return
        began = time.monotonic()
        try:
            self._work.wait()
        except RuntimeError as error:
            raise Broken(_first_line(error)) from error
        finally:
            WAITED.seconds += time.monotonic() - began


@final
class Group:
    """Collectives of a team; all members call the same ones in the same order."""

    def __init__(
        self, host: str, port: int, rank: int, size: int, *, bind: str | None, timeout: float, gpu: bool = False, name: str = ""
    ) -> None:
        """`bind`: the address of this machine that others are to connect to; None: the one its name stands for. `name`: where there are
        several groups."""
        self.rank, self.size = rank, size
        try:
            self._store = dist.TCPStore(host, port, None, False, timedelta(seconds=BEGIN))
            if name:
                self._store = dist.PrefixStore(name, self._store)
            self._group: Any = self._nccl(timeout) if gpu else self._gloo(bind, timeout)
        except RuntimeError as error:
            raise Broken(_first_line(error)) from error

    def _gloo(self, bind: str | None, timeout: float) -> Any:
        options = dist.ProcessGroupGloo._Options()
        options._timeout = timedelta(seconds=BEGIN)  # to connect: some open their job sooner than others
        options._threads = 2
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=bind) if bind else dist.ProcessGroupGloo.create_default_device()]
        group = dist.ProcessGroupGloo(self._store, self.rank, self.size, options)
        group._set_default_timeout(timedelta(seconds=timeout))
        return group

    def _nccl(self, timeout: float) -> Any:
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = timedelta(seconds=timeout)
        return dist.ProcessGroupNCCL(self._store, self.rank, self.size, options)

    def start_sum(self, tensor: Tensor) -> Sending:
        """Over all members, in place, while the caller goes on."""
        return self._start("allreduce", [tensor])

    def add_up(self, tensor: Tensor) -> None:
        self.start_sum(tensor).wait()

    def from_first(self, tensor: Tensor) -> None:
        """Becomes member 0's, whatever its layout in memory."""
        options = dist.BroadcastOptions()
        options.rootRank = options.rootTensor = 0
        value = tensor.detach().clone(memory_format=torch.contiguous_format)
        self._do("broadcast", [value], options)
        tensor.copy_(value)

    def all_gather(self, own: Tensor) -> list[Tensor]:
        """Tensors of the same shape, by rank."""
        found = [torch.empty_like(own) for _ in range(self.size)]
        self._do("allgather", [found], [own])
        return found

    def exchange(self, out: Mapping[int, Tensor], into: Mapping[int, Tensor]) -> None:
        """Tensors to some members, and from some into rooms for them."""
        try:
            works = [self._group.recv([room], rank, 0) for rank, room in into.items()]
            works += [self._group.send([tensor], rank, 0) for rank, tensor in out.items()]
        except RuntimeError as error:
            raise Broken(_first_line(error)) from error
        for work in works:
            Sending(work).wait()

    def start_send(self, tensor: Tensor, to: int, tag: int) -> Sending:
        """The tensor must not change before that is done. Those with one tag arrive in the order they were sent in."""
        return self._start("send", [tensor], to, tag)

    def start_receive(self, room: Tensor, source: int, tag: int) -> Sending:
        return self._start("recv", [room], source, tag)

    def to_first(self, own: Tensor, sizes: list[int]) -> list[Tensor]:
        """Bytes of each member, `sizes` of them, at member 0."""
        if self.rank:
            if len(own):
                self._do("send", [own], 0, 0)
            return []
        found = [own, *(torch.empty(size, dtype=torch.uint8) for size in sizes[1:])]
        for rank, room in enumerate(found):
            if rank and len(room):
                self._do("recv", [room], rank, 0)
        return found

    def _do(self, what: str, *arguments: Any) -> None:
        self._start(what, *arguments).wait()

    def _start(self, what: str, *arguments: Any) -> Sending:
        try:
            return Sending(getattr(self._group, what)(*arguments))
        except RuntimeError as error:
            raise Broken(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0]
