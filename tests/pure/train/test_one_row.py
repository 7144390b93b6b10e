"""One row: why a norm has refused it, and an edit that would not meet the same again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.train.one_row import Rows, one_row
from laminar.train.recipe import Recipe
from laminar.train.strategies import Quorum, Sync

SAID = "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 3])"


def recipe(batch: int, **options: object) -> Recipe:
    return Recipe(epochs=1, lr=0.1, batch=batch, strategy=Quorum(workers=4, **options))  # type: ignore[arg-type]


def test_other_errors_and_models_that_make_one_row_of_many_are_their_authors() -> None:
    assert one_row("ValueError: odd", Rows(1, 4, 100), recipe(4), 4) is None
    assert one_row(SAID, Rows(2, 8, 100), recipe(8), 4) is None
    assert one_row(SAID.replace("value per channel", "spatial element"), Rows(1, 4, 100), recipe(4), 4) is None


def test_one_row_among_workers() -> None:
    assert one_row(SAID, Rows(1, 4, 800), recipe(4), 4) == (
        "this worker has 1 row of a batch of 4, which 4 workers share, and of 1 row there are no batch statistics",
        "batch = 8 in train, workers = 2 or fewer in strategy, or another norm than BatchNorm (GroupNorm, LayerNorm)",
    )


def test_one_row_where_each_worker_takes_statistics_of_its_own() -> None:
    how = Recipe(epochs=1, lr=0.1, batch=4, strategy=Sync(workers=4, batch_norm="worker"))
    found = one_row(SAID, Rows(1, 4, 800), how, 4)
    assert found is not None and found[1].startswith('batch = 8 in train, batch_norm = "exact" in strategy, workers = 2 or fewer')


def test_one_row_of_a_short_last_batch() -> None:
    """Of 104 samples batches of 12 leave 8."""
    found = one_row(SAID, Rows(1, 5, 105), recipe(20), 4)
    assert found is not None
    assert "this worker has 1 row of a batch of 5" in found[0] and found[1].startswith("batch = 21 in train, workers = 2")


def test_one_row_of_few_samples() -> None:
    found = one_row(SAID, Rows(1, 5, 5), recipe(5), 4)
    assert found is not None and found[1].startswith("workers = 2 or fewer in strategy, or another norm")


def test_one_row_by_speed_or_because_more_have_come() -> None:
    found = one_row(SAID, Rows(1, 64, 800), recipe(64, shares="measured"), 4)
    assert found is not None and found[1].startswith('shares = "equal" in strategy, fewer workers, or another norm')
    found = one_row(SAID, Rows(1, 8, 800), recipe(8), 4)
    assert found is not None and found[1].startswith("a larger batch in train, fewer workers, or another norm")


def test_one_row_alone() -> None:
    why = "the batch has 1 row, of which there are no batch statistics"
    alone = Recipe(epochs=1, lr=0.1, batch=1, strategy=Sync(workers=1))
    assert one_row(SAID, Rows(1, 1, 800), alone, 1) == (
        why,
        "batch = 2 or more in train, or another norm than BatchNorm (GroupNorm, LayerNorm)",
    )
    found = one_row(SAID, Rows(1, 1, 1), recipe(16), 1)
    assert found is not None and found[0] == why and found[1].startswith("more training samples, or another norm")


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.integers(1, 400), st.integers(1, 60), st.integers(2, 8))
def test_the_batch_that_is_offered_leaves_two_rows_for_each(samples: int, batch: int, workers: int) -> None:
    found = one_row(SAID, Rows(1, workers, samples), recipe(batch), workers)
    assert found is not None
    if found[1].startswith("batch = "):
        offered = int(found[1].split()[2])
        assert 2 * workers <= offered <= samples
        assert samples % offered <= 1 or samples % offered // workers >= 2
    else:
        assert samples < 2 * workers  # all of them in one batch would do
