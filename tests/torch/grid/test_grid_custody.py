"""What a node keeps back when it leaves: handed in, held against its account, and gone on with by somebody else."""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np
import pytest
from safetensors.numpy import save

from laminar.grid.daemons.accounting import account_of, sketcher_of
from laminar.grid.daemons.file_deleter import delete_custody
from laminar.grid.db import nodes, runs
from laminar.grid.db.book import Tx
from laminar.grid.server.service import Denied
from laminar.grid.wire import answer as answers
from laminar.grid.wire.messages import Task
from laminar.parallel.compress.indices import pack as pack_positions
from laminar.parallel.compress.packet import Coding, Form, Packet
from laminar.train.compression import TopK
from laminar.train.on_grid import Grid
from tests.torch.grid.crowd import Crowd

SPARSE = Grid(
    workers=2, rounds=20, local_steps=2, deadline=600.0, lease=600.0, replicate="never", compress=TopK(sparsity=0.8, values="float32")
)


class Sparse(Crowd):
    """A crowd that sends the largest fifth and keeps the rest."""

    def send(self, number: int, task: Task, kept: np.ndarray, *, fresh: bool, turned: bool = False) -> tuple[str, str]:
        work = self.work(task)
        kept += work
        at = np.sort(np.argsort(-np.abs(kept))[: kept.size // 5]).astype(np.int64)
        values = -kept[at] if turned else kept[at]
        index, words = pack_positions(at, kept.size)
        packet = Packet.write(self.settings.layout, Form.SPARSE, [values, words], count=len(at), values=Coding.FLOAT32, index=index)
        kept[at] = 0
        head = answers.Head(
            result=task.result,
            version=task.version.number,
            packet=packet.nbytes,
            buffers=0,
            samples=task.steps,
            steps=task.steps,
            loss=1.0,
            seconds=1.0,
            fresh=fresh,
        )
        said = self.hall.answer(self.ids[number], task.result, answers.write(head, packet.data, np.zeros(0), self.sketcher.of(work)))
        self.hall.office.turn()
        return said.state, said.reason

    def account(self, number: int) -> np.ndarray:
        run = self.hall.run(self.run)
        return self.hall.desk.do(lambda tx: account_of(tx, run, self.ids[number]))

    def in_tx(self, what: str, number: int, *more: bytes) -> bytes | None:
        def do(tx: Tx) -> bytes | None:
            found: bytes | None = getattr(self.hall.service, what)(tx, self.ids[number], "crowd", *more)
            return found

        return self.hall.desk.do(do)


@pytest.fixture
def crowd() -> Sparse:
    return Sparse(["honest"] * 3, SPARSE)


def trained(crowd: Sparse, number: int, times: int) -> np.ndarray:
    kept = np.zeros(crowd.settings.layout.numel, np.float32)
    for i in range(times):
        task = crowd.take(number)
        assert task is not None
        assert crowd.send(number, task, kept, fresh=i == 0) == ("returned", "")
        other = crowd.take(2)  # so that rounds close
        if other is not None:
            crowd.send(2, other, np.zeros_like(kept), fresh=True)
    return kept


def test_the_account_is_the_sketch_of_what_is_kept_back(crowd: Sparse) -> None:
    kept = trained(crowd, 0, 5)
    assert np.linalg.norm(kept) > 0
    assert crowd.account(0) == pytest.approx(sketcher_of(crowd.settings).of(kept), abs=1e-4)


def test_a_packet_that_is_turned_round_is_refused_and_its_node_begins_anew(crowd: Sparse) -> None:
    trained(crowd, 0, 2)
    assert crowd.account(0).any()
    task = crowd.take(0)
    assert task is not None
    assert crowd.send(0, task, np.zeros(crowd.settings.layout.numel, np.float32), fresh=True, turned=True) == ("invalid", "account")
    assert not crowd.account(0).any()


def test_somebody_else_goes_on_with_what_a_node_has_left(crowd: Sparse) -> None:
    kept = trained(crowd, 0, 3)
    crowd.in_tx("leave_behind", 0, save({"v": kept, "turn": np.array(3)}))
    account = crowd.account(0).copy()
    taken = crowd.in_tx("take_over", 1)
    assert taken is not None and (crowd.account(1) == account).all() and not crowd.account(0).any()
    assert crowd.in_tx("take_over", 1) == taken and crowd.in_tx("take_over", 2) is None  # its reply may have been lost
    task = crowd.take(1)
    assert task is not None and crowd.send(1, task, kept, fresh=False) == ("returned", "")
    assert crowd.in_tx("take_over", 1) is None  # it is at work with it


def test_bytes_of_what_is_handed_in_and_taken_over_count(crowd: Sparse) -> None:
    """They are traffic as any other, and a node could hand in the same all day long."""
    kept = trained(crowd, 0, 2)
    data = save({"v": kept})

    def moved(number: int) -> tuple[int, int, int]:
        row = next(one for one in crowd.hall.desk.do(nodes.everyone) if one["id"] == crowd.ids[number])
        return row["bytes_up"], row["bytes_down"], row["bytes_today"]

    (up, down, today), before = moved(0), moved(1)
    crowd.in_tx("leave_behind", 0, data)
    assert moved(0) == (up + len(data), down, today + len(data))
    taken = crowd.in_tx("take_over", 1)
    assert taken is not None and moved(1) == (before[0], before[1] + len(taken), before[2] + len(taken))
    assert crowd.in_tx("take_over", 2) is None and crowd.in_tx("take_over", 1) == taken and moved(1)[1] == before[1] + 2 * len(taken)


def test_of_a_run_that_ended_long_ago_nothing_is_kept(crowd: Sparse) -> None:
    kept = trained(crowd, 0, 2)
    crowd.hall.desk.do(lambda tx: runs.save(tx, crowd.run, state="done", ended=crowd.hall.now))
    crowd.in_tx("leave_behind", 0, save({"v": kept}))  # it may be begun again
    assert crowd.hall.desk.do(lambda tx: delete_custody(tx, crowd.hall.now)) == 0
    crowd.hall.now += 8 * 86400
    with pytest.raises(Denied, match="ended long ago") as caught:
        crowd.in_tx("leave_behind", 0, save({"v": kept}))
    assert (caught.value.status, caught.value.error) == (404, "run")
    assert crowd.hall.desk.do(lambda tx: delete_custody(tx, crowd.hall.now)) == 1  # and what is here goes
    assert crowd.in_tx("take_over", 1) is None


def test_what_never_came_whole_goes_after_a_day(crowd: Sparse) -> None:
    trained(crowd, 0, 2)
    piece = partial(crowd.hall.service.leave_behind, id=crowd.ids[0], name="crowd", data=b"x" * 100, at=0, total=200)
    assert crowd.hall.desk.do(piece) == 100
    assert crowd.hall.desk.do(lambda tx: delete_custody(tx, crowd.hall.now + 3600)) == 0
    assert crowd.hall.desk.do(lambda tx: delete_custody(tx, crowd.hall.now + 2 * 86400)) == 1


@pytest.mark.parametrize(
    "harm",
    [b"garbage", save({"w": np.zeros(3, np.float32)}), save({"v": np.zeros(3, np.float32)}), save({"v": np.full(102, np.nan, np.float32)})],
)
def test_what_is_no_residual_is_not_kept(crowd: Sparse, harm: bytes) -> None:
    trained(crowd, 0, 2)
    with pytest.raises(Denied) as caught:
        crowd.in_tx("leave_behind", 0, harm)
    assert caught.value.status == 422


def test_a_residual_that_the_account_does_not_know_is_not_kept(crowd: Sparse) -> None:
    kept = trained(crowd, 0, 2)
    with pytest.raises(Denied, match="not what this node should have kept back"):
        crowd.in_tx("leave_behind", 0, save({"v": -kept}))


def test_what_was_not_used_goes_back_onto_the_account() -> None:
    late = Sparse(["honest"] * 3, msgspec.structs.replace(SPARSE, late="drop", quorum=0.5))
    kept = trained(late, 0, 1)
    slow = late.take(0)
    assert slow is not None
    for number in (1, 2):
        task = late.take(number)
        if task is not None:
            late.send(number, task, np.zeros_like(kept), fresh=True)
    late.hall.now += 700.0
    late.hall.office.turn()
    before = late.account(0).copy()
    work = late.work(slow)
    state, _ = late.send(0, slow, kept.copy(), fresh=False)
    assert state == "late"
    assert late.account(0) == pytest.approx(before + late.sketcher.of(work), abs=1e-4)
