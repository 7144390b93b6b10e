"""Known: what a planner asks of whoever measures (profile/), or made up (tests, machines that nobody has). No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, Protocol

from laminar.plan.facts import JobFacts, MachineFacts, ModelCost, Packing, Pass, StagesCost
from laminar.train.compression import AnyCompression
from laminar.train.splitting import Branches, Pipeline

How = Literal["module", "program"]
# Errors of measuring itself (processes that died, a machine that is busy): they say nothing of what was to be measured.
NOT_MEASURED: Final = ("L608", "L609")


class Known(Protocol):
    @property
    def untraceable(self) -> str | None:
        """Why the model is known as a whole only."""

    def job(self) -> JobFacts: ...

    def machine(self, world: int) -> MachineFacts: ...

    def whole(self, rows: int, how: How = "module", threads: int = 1) -> Pass:
        """A pass of so many rows through the model, there and back; as it is, or operator by operator as workers of a mesh run it."""

    def parts(self, rows: int, threads: int = 1) -> ModelCost | None:
        """The same pass module by module in the order of calls, together as long, of a model that cannot be traced. None: of another one,
        or where it is not known (yet)."""

    def packing(self, how: AnyCompression) -> Packing:
        """The gradient of the whole model, made small."""

    def cost(
        self, mesh: Mapping[str, int], split: Mapping[str, str], module: Mapping[str, Mapping[str, str]], rows: int, threads: int = 1
    ) -> ModelCost:
        """By workers of so many threads each. L012 for rules that the model does not allow."""

    def check(
        self, mesh: Mapping[str, int], split: Mapping[str, str], module: Mapping[str, Mapping[str, str]], rows: int, threads: int = 1
    ) -> None:
        """Hold the cost of these rules against a worker that has all of them at once; from then on it is that worker's."""

    def stages(self, how: Pipeline | Branches, batch: int, threads: int = 1) -> StagesCost:
        """L012 for what the model does not allow."""
