"""On several machines shares are measured, unless the stack file says otherwise; the key stays what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from laminar.launch.on_cluster import OnCluster
from laminar.launch.staff import ClusterStaff
from laminar.stack.choose_strategy import with_strategy
from laminar.stack.open_job import Description
from laminar.stack.read import read
from laminar.train.job import Job
from laminar.train.strategies import Sync

STACK = """\
[stack]
name = "s"
[data.d]
source = "digits"
[[layer]]
name = "base"
model = "laminar:mlp"
data = "d"
train = { epochs = 1, batch = 8, lr = 0.1 }
"""


class Hosts:
    def __init__(self, *hosts: str) -> None:
        self._hosts = list(hosts)

    def room(self, wanted: int, fewest: int | None = None) -> int:
        return wanted

    def about(self) -> dict[str, Any]:
        return {"hosts": self._hosts}


@pytest.mark.parametrize(
    ("strategy", "hosts", "shares"),
    [
        ("sync", ["a"], "auto"),
        ("sync", ["a", "b"], "measured"),
        ("sync:shares=equal", ["a", "b"], "equal"),
        ("sync:compress=int8", ["a", "b"], "auto"),  # it would be another layer
    ],
)
def test_shares_of_workers_on_these_hosts(tmp_path: Path, strategy: str, hosts: list[str], shares: str) -> None:
    (tmp_path / "laminar.toml").write_text(STACK)
    file = with_strategy(read(tmp_path / "laminar.toml"), strategy, 2)
    recipe = file.spec.layer[0].train
    job = Job(name="base", model=cast(Any, None), data=cast(Any, None), recipe=recipe, frozen=None, folder=tmp_path)
    description, staff = Description(file, tmp_path, "base", None, "run"), cast(ClusterStaff, Hosts(*hosts))
    told, count = OnCluster._on_these_machines(job, description, staff, agents=2)
    assert count == 2
    for found in (job.recipe, Description.from_json(told.to_json()).file.spec.layer[0].train):
        assert isinstance(found.strategy, Sync) and found.strategy.shares == shares
        assert found.key_fields() == recipe.key_fields()
