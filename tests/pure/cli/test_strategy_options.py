"""Options that choose a strategy: what cannot be meant is a mistake of usage."""

from __future__ import annotations

import pytest

from laminar.cli.strategy_options import automatic
from laminar.core.errors import LaminarError


@pytest.mark.parametrize("budget", ["inf", "nan", "-1", "0", "x"])
def test_a_budget_is_a_number_of_seconds(budget: str) -> None:
    with pytest.raises(LaminarError, match="auto has no setting 'budget' of that kind") as caught:
        automatic(f"auto:budget={budget}", None)
    assert caught.value.code == "L008"
