"""What the workers of stages hand over in a step is priced to the byte, also inside of lanes that are meshes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.parallel.split.prepare import rules_of
from laminar.parallel.stages import prepare
from laminar.parallel.stages.measure import Cost
from laminar.parallel.stages.prepare import in_stages
from laminar.parallel.stages.traffic import lane_traffic
from laminar.plan.price_stages import stages_bytes
from laminar.train.splitting import Branches, Pipeline
from tests.torch.parallel.split_models import Wide, mlp
from tests.torch.plan.profile_jobs import job, profile

ROWS: dict[str, Any] = {"mesh": {"rows": 2}, "split": {"batch": "rows"}}
COLS: dict[str, Any] = {"mesh": {"cols": 2}, "split": {"hidden": "cols"}}


class Again(nn.Module):
    """One module that is run three times: several lanes have its tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.again, self.head = nn.Linear(784, 24), nn.Linear(24, 24), nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.stem(x.flatten(1)))
        for _ in range(3):
            y = torch.relu(self.again(y))
        out: Tensor = self.head(y)
        return out


@pytest.mark.parametrize(
    ("model", "how"),
    [
        (mlp, Pipeline(stages=2, microbatches=4)),
        (mlp, Pipeline(stages=2, microbatches=4, **ROWS)),
        (mlp, Pipeline(stages=2, microbatches=4, **COLS)),
        (Again, Pipeline(stages=3, microbatches=4)),
        (Again, Pipeline(stages=4, microbatches=4, **ROWS)),
        (Again, Pipeline(workers=2, stages=4, microbatches=4, schedule="interleaved")),
        (mlp, Pipeline(stages=2, microbatches=6)),  # 3, 3, 3, 3, 3 and 1 of the 16 rows
        (mlp, Pipeline(stages=2, microbatches=7)),  # 3 of them each make one less
        (mlp, Pipeline(stages=2, microbatches=3, **ROWS)),
        (mlp, Pipeline(stages=2, microbatches=3, **COLS)),
        (Again, Pipeline(workers=2, stages=4, microbatches=6, schedule="interleaved")),
        (Wide, Branches(lanes=2)),
        (Wide, Branches(lanes=3, **ROWS)),
    ],
)
def test_bytes_are_those_of_all_workers(model: type[nn.Module], how: Pipeline | Branches, tmp_path: Path) -> None:
    one = job(model(), tmp_path)
    known = profile(one)
    cost = known.stages(how, 16)
    operators = known._cost(rules_of(how), -(-16 // (cost.batches * how.parts)) * how.parts, staged=True).operators
    costs = [Cost(each.forward, each.inputs + each.weights, each.weights) for each in operators[:-1]]
    asked = replace(one, recipe=msgspec.structs.replace(one.recipe, strategy=how))
    prepared = in_stages(asked, how, *known._traced.flows(rules_of(how)), costs)
    places = [dict(zip(how.mesh, at, strict=True)) for at in product(*map(range, how.mesh.values()))]
    trained = known._traced.trained
    sent = [lane_traffic(prepared, lane, at, 16, how.parts, lambda name: name in trained) for lane in range(cost.lanes) for at in places]
    assert stages_bytes(cost, len(places)) == sum(each.step for each in sent) > 0
    if "batch" in how.split:
        assert any(stage.gradients for stage in cost.stages)  # a lane may have nothing to train: where it is cut goes by measured times


def test_branches_that_all_stay_with_one_lane_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "sending", lambda *_: 1.0)  # far more than the branches take
    known = profile(job(Wide(), tmp_path))
    with pytest.raises(LaminarError, match="1 of 2 lanes would have nothing to do") as told:
        known.stages(Branches(lanes=2), 16)
    assert told.value.code == "L012", "which the search takes for a plan that cannot be"
