"""Statistics: what counts, what is noise, and what is only listed."""

from __future__ import annotations

import msgspec
import pytest

from laminar.experiments.measures import MEASURES, measure_of
from laminar.experiments.record import Axis, Published, Statement
from laminar.experiments.statement_arguments import ARGUMENTS, check_rule
from laminar.experiments.statements import RULES
from laminar.experiments.statistics import summary
from tests.pure.experiments.made_up_trials import curve, description, trial


def trials_of(*seconds: list[float], **more: object) -> list[object]:
    described = description()
    return [
        trial(described.variants[v].id, repeat, seconds=value, metrics={"accuracy": 0.9}, **more)
        for v, values in enumerate(seconds)
        for repeat, value in enumerate(values)
    ]


def test_per_cent_of_the_benchmark_with_verdicts() -> None:
    found = summary(description(), trials_of([10, 10.2, 9.8], [11, 11.3, 11.1], [10.1, 9.7, 10.3]))
    one, two, three = (row.figures["seconds"] for row in found.rows)
    assert (one.verdict, one.percent, one.percent_interval) == ("benchmark", 100.0, None)
    assert two.verdict == "more"
    assert two.percent == pytest.approx(111.0)
    assert two.percent_interval is not None
    assert two.percent_interval.low > 100
    assert three.verdict == "inside the noise"
    assert found.rows[0].benchmark
    assert (found.done, found.planned) == (9, 9)


def test_warm_ups_busy_and_failed_trials_are_not_counted() -> None:
    described = description()
    first = described.variants[0].id
    trials = [
        trial(first, 0, seconds=99.0, counted=False, why_not="warm-up"),
        trial(first, 0, seconds=50.0, counted=False, why_not="others took 90% of a core meanwhile", busy=0.9),
        trial(first, 0, seconds=10.0),
        trial(first, 1, outcome="failed", error={"code": "L601", "message": "the loss is nan", "hint": ""}),
        trial(first, 2, outcome="stopped"),
        trial(described.variants[1].id, 0, seconds=11.0, busy=0.5),
    ]
    found = summary(described, trials)
    row = found.rows[0]
    assert row.figures["seconds"].n == 1
    assert row.figures["seconds"].median == 10.0
    assert (row.counted, row.failed, row.stopped, row.not_counted) == (1, 1, 1, 1)
    assert found.rows[1].busy == 1
    assert [(one.code, one.repeat) for one in found.failures] == [("L601", 1)]
    assert [note.partition(" ran ")[0] for note in found.notes] == ["1 counted trial", "1 trial"]
    assert found.rows[1].figures["seconds"].verdict == "too few repeats"


@pytest.mark.parametrize(("layer", "told"), [("strokes", True), ("head", False)])
def test_seeds_below_are_in_no_interval(layer: str, told: bool) -> None:
    axis = Axis(name=f"layer.{layer}.train.epochs", values=(1, 2), path=f"layer.{layer}.train.epochs")
    notes = summary(msgspec.structs.replace(description(), axes=(axis,)), []).notes
    assert any("trained once for each value" in one for one in notes) is told


def test_an_experiment_without_trials_is_summed_up_too() -> None:
    found = summary(description(), [])
    assert found.measures == ()
    assert [row.figures for row in found.rows] == [{}, {}, {}]
    assert found.done == 0
    assert msgspec.json.decode(msgspec.json.encode(found))["planned"] == 9


def test_published_figures_stand_beside_ours() -> None:
    described = description()
    given = Published(variant=described.variants[1].id, measure="seconds", value=110.3, percent=True, source="a paper")
    found = summary(msgspec.structs.replace(described, published=(given,)), trials_of([10], [11]))
    figure = found.rows[1].figures["seconds"]
    assert (figure.published, figure.published_percent, figure.source) == (110.3, True, "a paper")
    assert found.rows[0].figures["seconds"].published is None


def test_measures_are_read_off_curves() -> None:
    one = trial("v", seconds=4.0, curve=curve(0.5, 0.8, 0.9), metrics={"accuracy": 0.9, "bytes": 7.0})
    assert measure_of(one, "time_to_target", 0.8) == 2.0
    assert measure_of(one, "steps_to_target", 0.8) == 20.0
    assert measure_of(one, "time_to_target", 0.95) is None
    assert measure_of(one, "time_to_target") is None
    assert measure_of(one, "overfit") == pytest.approx(0.1)
    assert measure_of(one, "seconds_per_epoch") == pytest.approx(4 / 3)
    assert measure_of(one, "bytes") == 7.0
    assert measure_of(one, "r2") is None
    assert all(measure_of(trial("v"), name, 0.5) is None for name in MEASURES if name not in ("seconds", "wall"))


def test_targets_that_were_missed_are_told() -> None:
    described = description(measures=("time_to_target",), target=0.8)
    first = described.variants[0].id
    found = summary(described, [trial(first, 0, curve=curve(0.9)), trial(first, 1, curve=curve(0.1))])
    assert found.rows[0].figures["time_to_target"].n == 1
    assert any("reached by 1 of 2" in note for note in found.notes)


# statements


def judged(rule: str, arguments: dict[str, object], *seconds: list[float]) -> str:
    described = description(statements=(Statement(text="so it is said", rule=rule, arguments=arguments),))
    return summary(described, trials_of(*seconds)).statements[0].verdict


SLOW, SAME, FAST = [12.0, 12.1, 12.2], [10.0, 10.1, 9.9], [8.0, 8.1, 8.2]
MORE = [*SAME, 10.2]


@pytest.mark.parametrize(
    ("rule", "arguments", "seconds", "verdict"),
    [
        ("slower_than", {"variant": {"workers": 2}}, (SAME, SLOW), "confirmed"),
        ("slower_than", {"variant": {"workers": 2}}, (SAME, FAST), "refuted"),
        ("slower_than", {"variant": {"workers": 2}}, (SAME, SAME), "not shown"),
        ("slower_than", {"variant": {"workers": 9}}, (SAME, SLOW), "not shown"),
        ("less_than", {"variant": {"workers": 3}, "than": {"workers": 2}}, (SAME, SLOW, FAST), "confirmed"),
        ("monotone", {"axis": "workers", "direction": "falling"}, (SLOW, SAME, FAST), "confirmed"),
        ("monotone", {"axis": "workers", "direction": "falling"}, (SAME, SLOW, FAST), "refuted"),
        ("monotone", {"axis": "workers"}, (SLOW, SAME, FAST), "refuted"),
        ("monotone", {"axis": "workers"}, (SAME, SAME, SAME), "not shown"),
        ("monotone", {"axis": "workers"}, (SAME,), "not shown"),
        ("monotone", {"axis": "workers"}, (FAST, SAME, SAME), "not shown"),  # no step at all is none that goes up
        ("monotone", {"axis": "workers", "direction": "falling"}, (SLOW, SAME, SAME), "not shown"),  # nor one that goes down
        ("at_least", {"measure": "seconds", "value": 9.0, "variant": {"workers": 1}}, (MORE,), "confirmed"),
        ("at_least", {"measure": "seconds", "value": 9.0, "variant": {"workers": 1}}, (SAME,), "not shown"),  # at 87 %
        ("at_least", {"measure": "seconds", "value": 11.0, "variant": {"workers": 1}}, (MORE,), "refuted"),
        ("at_least", {"measure": "seconds", "value": 10.0, "variant": {"workers": 1}}, (MORE,), "not shown"),
        ("at_most", {"measure": "seconds", "value": 11.0}, (MORE, [*FAST, 8.3]), "confirmed"),
        ("at_most", {"measure": "seconds", "value": 11.0}, (MORE, [*SLOW, 12.3]), "refuted"),
        ("within", {"variant": {"workers": 2}, "low": 110, "high": 130}, (SAME, SLOW), "confirmed"),
        ("within", {"variant": {"workers": 2}, "low": 90, "high": 110}, (SAME, SLOW), "refuted"),
        ("within", {"variant": {"workers": 2}, "low": 119, "high": 121}, (SAME, SLOW), "not shown"),
        ("within", {"variant": {"workers": 2}, "low": 90, "high": 110}, (SAME[:1], SLOW[:1]), "not shown"),
        ("no_such_rule", {}, (SAME, SLOW), "not shown"),
        ("within", {}, (SAME, SLOW), "not shown"),  # without what it needs
    ],
)
def test_statements(rule: str, arguments: dict[str, object], seconds: tuple[list[float], ...], verdict: str) -> None:
    assert judged(rule, arguments, *seconds) == verdict


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        ((FAST, SLOW, SAME, [x + 9 for x in SLOW]), "confirmed"),  # with either batch; that batches differ says nothing about workers
        ((FAST, SLOW, SAME, SLOW), "not shown"),
        ((SAME, SLOW, FAST, [x + 9 for x in SLOW]), "refuted"),
    ],
)
def test_steps_along_an_axis_are_between_variants_that_differ_in_nothing_else(seconds: tuple[list[float], ...], verdict: str) -> None:
    statement = Statement(text="", rule="monotone", arguments={"axis": "workers"})
    described = description({"workers": [1, 2], "batch": [32, 64]}, statements=(statement,))
    trials = [
        trial(variant.id, repeat, seconds=value)
        for variant, values in zip(described.variants, seconds, strict=True)
        for repeat, value in enumerate(values)
    ]
    (found,) = summary(described, trials).statements
    assert found.verdict == verdict


def test_values_that_are_lists_or_tables_come_in_the_order_in_which_they_are_written() -> None:
    statement = Statement(text="", rule="monotone", arguments={"axis": "strategy"})
    described = description({"strategy": [{"kind": "sync", "workers": 2}, ["no", "number"], "solo"]}, statements=(statement,))
    trials = [
        trial(variant.id, repeat, seconds=value)
        for variant, values in zip(described.variants, (FAST, SAME, SLOW), strict=True)
        for repeat, value in enumerate(values)
    ]
    (found,) = summary(described, trials).statements
    assert found.verdict == "confirmed"


@pytest.mark.parametrize(
    ("reached", "verdict"),
    [
        ((3, 3), "refuted"),  # one worker needs two epochs, two need three
        ((3, 0), "refuted"),  # never: longer than any
        ((0, 3), "confirmed"),
        ((0, 0), "not shown"),
        ((1, 0), "not shown"),
        ((0, -3), "not shown"),  # two workers needed more steps than those after which one was given up
    ],
)
def test_who_never_reaches_the_target_takes_longer(reached: tuple[int, int], verdict: str) -> None:
    said = Statement(text="", rule="less_than", arguments={"variant": {"workers": 2}, "measure": "steps_to_target"})
    described = description({"workers": [1, 2]}, statements=(said,), target=0.8, measures=("steps_to_target",))
    ends = [curve(0.5, 0.8), curve(0.5, 0.6, 0.8) if reached[1] >= 0 else curve(0.5, 0.6, 0.7, 0.75, 0.8)]
    reached = reached[0], abs(reached[1])
    trials = [
        trial(one.id, n, curve=end if n < many else curve(0.5, 0.6, 0.7))
        for one, end, many in zip(described.variants, ends, reached, strict=True)
        for n in range(3)
    ]
    (judged,) = summary(described, trials).statements
    assert judged.verdict == verdict
    for label, many in zip(("1 worker", "2 workers"), reached, strict=True):
        assert (f"{label}: not reached by {3 - many} of 3 trials" in judged.words) is (many < 3)


def test_a_bound_says_how_many_trials_keep_it() -> None:
    """Median, spread, and how sure that is."""
    said = Statement(text="0.8728 is reached", rule="at_least", arguments={"measure": "seconds", "value": 0.8728})
    found = summary(description(statements=(said,)), trials_of([0.8757, 0.8681, 0.8760]))
    (judged,) = found.statements
    assert judged.verdict == "not shown"
    assert judged.words.startswith("1 worker: median seconds 0.8757 (0.8681 to 0.8760 at 75%), 2 of 3 trials: too few repeats")


def test_variants_that_a_sweep_no_longer_has_are_kept_and_not_counted() -> None:
    described = description(repeats=1)
    gone = trial("gone", seconds=5.0, wall=100.0)
    failed = trial("gone", 1, outcome="failed", error={"code": "L601", "message": "the loss is nan"})
    found = summary(described, [gone, failed, *trials_of([10], [11], [12])])
    assert (found.done, found.planned, found.failures, found.seconds) == (3, 3, (), 3.0)
    assert [row.variant for row in found.rows] == [one.id for one in described.variants]
    assert found.notes == ("2 trials of variants that the sweep no longer has: kept, and left out here",)
    fewer = summary(description(repeats=1), trials_of([10, 10.1], [11], [12]))  # more was trained than is asked for now
    assert (fewer.done, fewer.planned) == (4, 4)


def test_a_sum_of_other_trials_took_no_time_of_its_own() -> None:
    described = description(repeats=1)
    one, two, three = (variant.id for variant in described.variants)
    trials = [trial(one, wall=2.0), trial(two, wall=3.0), trial(three, wall=5.0, sum_of=(one, two))]
    assert summary(described, trials).seconds == 5.0


def test_rules_are_checked_before_anything_is_run() -> None:
    from laminar.core.errors import LaminarError

    with pytest.raises(LaminarError, match="did you mean 'monotone'"):
        check_rule(Statement(text="", rule="monoton"))
    assert set(ARGUMENTS) == set(RULES)


@pytest.mark.parametrize(
    ("rule", "arguments", "said"),
    [
        ("more_than", {"variant": {"workers": 2}, "thann": {}}, "no argument 'thann'; did you mean 'than'"),
        ("more_than", {"variant": "2 workers"}, "is '2 workers', but must be a table of settings"),
        ("more_than", {}, "needs the argument 'variant'"),
        ("at_least", {"measure": "accuracy"}, "needs the argument 'value'"),
        ("at_least", {"measure": "accuracy", "value": "0.9"}, "is '0.9', but must be a number"),
        ("at_least", {"measure": ["accuracy"], "value": 0.9}, "must be text"),
        ("at_least", {"measure": "acuracy", "value": 0.9}, "did you mean 'accuracy'"),
        ("monotone", {"axis": "workers", "direction": "up"}, 'must be "rising" or "falling"'),
        ("within", {"variant": {"workers": 2}, "low": True}, "must be a number"),
    ],
)
def test_arguments_of_rules_are_checked(rule: str, arguments: dict[str, object], said: str) -> None:
    """Before anything is run; of a description that somebody has edited since, a report says so."""
    from laminar.core.errors import LaminarError

    wrong = Statement(text="", rule=rule, arguments=arguments)
    with pytest.raises(LaminarError, match=said):
        check_rule(wrong)
    (judged,) = summary(description(statements=(wrong,)), trials_of(SAME, SLOW)).statements
    assert judged.verdict == "not shown"
    assert said in judged.words
