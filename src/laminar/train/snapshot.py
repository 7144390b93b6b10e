"""Snapshot: everything a run consists of between two steps, as tensors and JSON, and the way back.

Tensors that are frozen are not in it, only their digest: a checkpoint of a small head on a large frozen model is small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import torch
from torch import Tensor, nn

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.figures import number
from laminar.train.borrowed import load_rng, rng_state
from laminar.train.changes import Changes
from laminar.train.checkpoint import Checkpoint, pack, unpack
from laminar.train.dtype import LossScale
from laminar.train.job import Job
from laminar.train.metrics import Tally
from laminar.train.optimizers import Optimizer
from laminar.train.recipe import Recipe
from laminar.train.strides import refuse_shared_places
from laminar.train.team import TeamOptimizer
from laminar.train.tensor_file import Later, in_order

_AGAIN = "laminar build --force trains this layer from its start"


ALL_DONE: Final = "all epochs done"


class Progress(msgspec.Struct):
    """Where a run is. Position first: the next step is batch `batch` of epoch `epoch`."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    samples: int = 0  # trained on so far
    fit_seconds: float = 0.0  # spent on steps
    epoch_seconds: float = 0.0  # the same, in this epoch
    seconds: float = 0.0  # spent on everything
    first: float | None = None  # loss of the first batch
    best: float | None = None  # lowest test loss
    best_epoch: int | None = None  # the epoch that had it, from 1
    waited: int = 0  # epochs since then
    stopped: str = ""  # why there is nothing more to do
    metrics: dict[str, float] = {}  # on the test split, after the newest whole epoch
    change: float | None = None  # of the weights, in that epoch (changes.py); None: not known
    checkpoints: int = 0  # within the training: that of its end is none of them
    checkpoint_seconds: float = 0.0  # for which training stood still, to keep those
    sent: int = 0  # bytes of gradients between the members of a team
    epoch_sent: int = 0  # in this epoch
    epoch_dense: int = 0  # what it would have been without compression
    losses: list[float] = []  # of the newest batches, where the optimizer goes by them (isgd.py)
    repeated: int = 0  # batches on which it took further steps
    shares: list[int] = []  # rows of a batch for each member of a team, where they are measured

    def tested(self, epoch: int, metrics: dict[str, float]) -> None:
        """The test after an epoch (counted from 1) gave these figures."""
        self.metrics = metrics
        if self.best is None or metrics["loss"] < self.best:
            self.best, self.best_epoch, self.waited = metrics["loss"], epoch, 0
        else:
            self.waited += 1

    def reason_to_stop(self, recipe: Recipe) -> str:
        """Why the epoch that was tested last is the end; empty where it is not."""
        figures = self.metrics if self.change is None else {**self.metrics, "change": self.change}
        if recipe.target is not None and recipe.target.reached(figures):
            by = f", in which weights changed by {number(self.change)} of their size" if recipe.target.change is not None else ""
            return f"target reached in epoch {self.epoch}{by}"
        if self.epoch >= recipe.epochs:
            return ALL_DONE
        if recipe.patience is not None and self.waited >= recipe.patience:
            return f"no lower test loss for {self.waited} epochs"
        return ""

    def early_end(self, recipe: Recipe) -> str:
        """What a user should know of a run that stopped before its last epoch; empty where it did not."""
        if self.stopped in ("", ALL_DONE) or self.epoch >= recipe.epochs:
            return ""
        kept = f"the weights of epoch {self.epoch} were kept, with test loss {number(self.metrics['loss'])}"
        if self.best is not None and self.best_epoch not in (None, self.epoch):
            kept += f"; the lowest was {number(self.best)}, in epoch {self.best_epoch}"
        return f"stopped after epoch {self.epoch} of {recipe.epochs}: {self.stopped}; {kept}"


@dataclass(frozen=True)
class Members:
    """What a checkpoint has of a team: the figures of the epoch under way, of all together, and what each member packed."""

    tally: dict[str, float]
    own: list[bytes]


@dataclass
class Run:
    """The parts of a running job that change from step to step."""

    job: Job
    optimizer: Optimizer | TeamOptimizer
    scale: LossScale | None
    tally: Tally
    frozen: dict[str, Any]  # as it was at the start: frozen_state()
    changes: Changes | None = None  # None: nobody wants to know them
    progress: Progress = field(default_factory=Progress)

    def gather(self) -> Members:
        """By all members of a team at once: what only they have, for member 0 to keep."""
        team, tally = self.job.team, self.tally.state()
        if team is None or isinstance(self.optimizer, Optimizer):
            return Members(tally, [])
        whole = dict(zip(tally, team.sum(list(tally.values())), strict=True))
        words, streams = rng_state()
        own = {"rng": words} | {f"residual/{name}": tensor for name, tensor in self.optimizer.residual().items()}
        return Members(whole, team.gather(pack(own, streams)))

    def tensors(self) -> dict[str, Tensor | Later]:
        """What is learned, and what the optimizer remembers; whole, or to be put together by all members of a team, in this order."""
        whole = _as_it_is if self.job.team is None else self.job.team.whole
        # between epochs they are the weights themselves
        before = self.changes.tensors() if self.changes is not None and self.progress.batch else {}
        return {
            **{f"before/{name}": whole(name, tensor) for name, tensor in before.items()},
            **{f"model/{name}": whole(name, tensor) for name, tensor in changing(self.job)},
            **{f"optimizer/{name}": whole(name, tensor) for name, tensor in self.optimizer.tensors().items()},
        }

    def give(self) -> None:
        """What member 0 writes down, by all other members at the same time."""
        for _, tensor in in_order(self.tensors()):
            if isinstance(tensor, Later):
                tensor.get()

    def capture(self, events: int, members: Members) -> tuple[dict[str, Tensor | Later], dict[str, Any]]:
        """Tensors and JSON; `events` is the size of the event file at this moment."""
        words, streams = rng_state()
        tensors = self.tensors()
        tensors |= {f"member/{rank}": torch.frombuffer(bytearray(own), dtype=torch.uint8) for rank, own in enumerate(members.own)}
        tensors["rng"] = words
        state = {
            "recipe": recipe_digest(self.job),
            "samples": len(self.job.data.train),
            "trained": list(self.optimizer.params),
            "frozen": self.frozen,
            "progress": msgspec.to_builtins(self.progress),
            "tally": members.tally,
            "scale": None if self.scale is None else [self.scale.scale, self.scale.good],
            "rng": streams,
            "threads": torch.get_num_threads(),
            "events": events,
        }
        return tensors, state

    @torch.no_grad()
    def restore(self, saved: Checkpoint) -> None:
        """The run as it was; L604 unless the checkpoint is of the very same tensors, trained and frozen."""
        state = saved.state
        _same("trained parameters", list(self.optimizer.params), state["trained"])
        _same("frozen modules", self.frozen["modules"], state["frozen"]["modules"])
        if self.frozen["digest"] != state["frozen"]["digest"]:
            raise LaminarError("L604", "the checkpoint was trained on other frozen tensors than those of the model now", hint=_AGAIN)
        own = dict(changing(self.job))
        _same("tensors", sorted(own), sorted(_names(saved, "model/")))
        team = self.job.team
        for name, tensor in own.items():
            if team is not None and not team.holds(name):
                continue
            kept = saved.tensors[f"model/{name}"]
            then = kept if team is None else team.own(name, kept)
            if tensor.shape != then.shape or tensor.dtype != then.dtype:
                kinds = f"{then.dtype} {list(then.shape)} in the checkpoint and {tensor.dtype} {list(tensor.shape)} in the model"
                raise LaminarError("L604", f"'{name}' is {kinds}", hint=_AGAIN)
            tensor.copy_(then)
        self.optimizer.load(Under(saved.tensors, "optimizer/"))
        self.progress = msgspec.convert(state["progress"], Progress)
        if self.changes is not None and self.progress.batch:
            self.changes.load(Under(saved.tensors, "before/"))
        if self.scale is not None:
            self.scale.scale, self.scale.good = state["scale"]
        if team is None or not team.rank:
            self.tally.load(state["tally"])  # of all members together
            load_rng(saved.tensors["rng"], state["rng"])
        if not isinstance(self.optimizer, Optimizer):
            self._restore_member(saved)

    def _restore_member(self, saved: Checkpoint) -> None:
        """What a member had for itself. A team of another size than before has members without random streams of old: theirs start anew."""
        count = len(_names(saved, "member/"))
        own = [unpack(saved.tensors[f"member/{rank}"].numpy().tobytes()) for rank in range(count)]
        team = self.job.team
        assert team is not None and not isinstance(self.optimizer, Optimizer)
        if 0 < team.rank < len(own):
            load_rng(own[team.rank][0]["rng"], own[team.rank][1])
        self.optimizer.load_residual([dict(Under(tensors, "residual/")) for tensors, _ in own])


def belongs(saved: Checkpoint, job: Job) -> bool:
    """Is it of this recipe and this data? What fails here is another run's, and not an error."""
    return bool(saved.state["recipe"] == recipe_digest(job) and saved.state["samples"] == len(job.data.train))


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """L603 if there is none, L606 for one that nothing can train."""
    found = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not found:
        total = sum(1 for _ in model.parameters())
        what = f"all {total} parameters of the model are frozen" if total else "the model has no parameters"
        raise LaminarError("L603", f"there is nothing to train: {what}", hint="take a module out of freeze, or replace one")
    refuse_shared_places(found)
    return found


def changing(job: Job) -> Iterator[tuple[str, Tensor]]:
    """Every parameter and buffer that is not frozen, also buffers that a state_dict leaves out."""
    frozen = job.frozen
    for name, tensor in [*job.model.named_parameters(), *job.model.named_buffers()]:
        if frozen is None or not frozen.covers(name):
            yield name, tensor


def buffers_of(job: Job) -> dict[str, Tensor]:
    """Those that are not frozen, also such as a state_dict leaves out."""
    own = {name for name, _ in job.model.named_buffers()}
    return {name: tensor for name, tensor in changing(job) if name in own}


def frozen_state(job: Job) -> dict[str, Any]:
    """Which modules are frozen, and one digest of their tensors; Frozen.check() compares with this moment from now on."""
    if job.frozen is None:
        return {"modules": [], "digest": digest.of_json({})}
    return {"modules": sorted(job.frozen.paths), "digest": digest.of_json(job.frozen.digest())}


def recipe_digest(job: Job) -> str:
    return digest.of_json(job.recipe.key_fields())


class Under(Mapping[str, Tensor]):
    """Tensors whose names begin with something, by the rest of their names."""

    def __init__(self, tensors: Mapping[str, Tensor], prefix: str) -> None:
        self._tensors, self._prefix = tensors, prefix

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._tensors if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _names(saved: Checkpoint, prefix: str) -> list[str]:
    return list(Under(saved.tensors, prefix))


def _as_it_is(name: str, tensor: Tensor) -> Tensor:  # noqa: ARG001
    return tensor


def _same(what: str, now: list[str], then: list[str]) -> None:
    if now != then:
        odd = sorted(set(now) ^ set(then)) or [f"{then[:3]} in another order"]
        raise LaminarError("L604", f"the checkpoint has other {what} than the model now: {', '.join(odd[:3])}", hint=_AGAIN)
