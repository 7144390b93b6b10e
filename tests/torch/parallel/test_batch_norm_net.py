"""Fixed seeds of the net that holds sync to the batch norms of one process; more of them: make fuzz NET=batch_norms."""

from __future__ import annotations

import pytest

from tests.nets import batch_norms


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_a_team_has_the_batch_norms_of_one_process(first: int) -> None:
    found = [batch_norms.check(seed) for seed in range(first, first + 10)]
    assert set(found) <= {"memory", "gloo", "refused"} and len(set(found)) > 1
