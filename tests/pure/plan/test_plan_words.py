"""What `laminar plan` says beside its list."""

from __future__ import annotations

from laminar.cli.plan import _route


def test_whether_the_frozen_part_is_in_a_step_is_said() -> None:
    """It goes by what was measured just now, and changes every price."""
    assert _route({"event": "features", "action": "kept", "why": "reading is cheaper"}) == [
        "features are kept: the frozen part is in no step (reading is cheaper)"
    ]
    assert _route({"event": "features", "action": "not-kept", "why": "too short"}) == [
        "the frozen part is computed in every step (too short)"
    ]
    assert _route({"event": "waiting"}) == []


def test_samples_that_are_counted_while_features_are_computed_are_no_remark() -> None:
    assert _route({"event": "features", "action": "computing", "done": 32, "of": 64}) == []
