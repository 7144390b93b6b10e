"""Native code: the same results as the emulator; bounds, loops without an end, wrong arguments."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from laminar.core.errors import LaminarError
from laminar.kernels.arguments import arguments
from laminar.kernels.compile.boxes import Plan
from laminar.kernels.compile.grid import Shape
from laminar.kernels.compile.instrumented import instrumented
from laminar.kernels.compile.native import Native, Options, compiled
from laminar.kernels.compile.pool import RESTS, Pool
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel

SCALAR, LANES, BLOCKS = Options(lanes=False), Options(blocks=False), Options()


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))


def both(
    source: str, count: int | None = None, options: tuple[Options, ...] = (SCALAR, BLOCKS), threads: int = 1, **given: Any
) -> dict[str, Any]:
    """Outputs of native code, after they were compared with the emulator's."""
    kernel = read_kernel(source)
    called = arguments(kernel, given, count)
    wanted = emulate(kernel, called.arrays, called.values, called.count).outputs
    got: dict[str, Any] = {}
    for one in options:
        got = {name: array.copy() for name, array in called.arrays.items()}
        compiled(kernel, one).run(list(got.values()), [called.values[one.name] for one in kernel.values], called.count, threads)
        for name, array in wanted.items():
            assert got[name].tobytes() == array.tobytes(), (one, name, got[name], array)
    return got


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


LEAKY = """void kernel(int i, int n, float slope, const float x[n], float y[n]) {
    float v = x[i];
    if (v < 0.0f) v = slope * v;
    y[i] = v;
}"""
PRODUCT = """void kernel(int i, int count, int n, int m, int depth, const float a[n][depth], const float b[depth][m], float c[n][m]) {
    int row = i / m;
    int col = i % m;
    float sum = 0.0f;
    for (int k = 0; k < depth; k++) sum += a[row][k] * b[k][col];
    c[row][col] = sum;
}"""
CONVOLUTION = """void kernel(int i, int count, int images, int ins, int outs, int h, int w, const float x[images][ins][h][w],
            const float k[outs][ins][3][3], const float b[outs], float y[images][outs][h][w]) {
    int col = i % w;
    int row = (i / w) % h;
    int out = (i / (w * h)) % outs;
    int image = i / (w * h * outs);
    float sum = b[out];
    for (int in_ = 0; in_ < ins; in_++)
        for (int dy = 0; dy < 3; dy++)
            for (int dx = 0; dx < 3; dx++) {
                int yy = row + dy - 1;
                int xx = col + dx - 1;
                if (yy >= 0 && yy < h && xx >= 0 && xx < w) sum += k[out][in_][dy][dx] * x[image][in_][yy][xx];
            }
    y[image][out][row][col] = sum;
}"""


@pytest.mark.parametrize("count", [1, 5, 16, 17, 100])
def test_a_kernel_of_elements(count: int) -> None:
    both(LEAKY, x=numbers(count), slope=0.1)


@pytest.mark.parametrize(("n", "m", "depth"), [(1, 1, 1), (3, 5, 7), (4, 64, 3), (9, 70, 4), (13, 17, 0)])
def test_a_matrix_product_in_blocks_keeps_the_order_of_sums(n: int, m: int, depth: int) -> None:
    if depth == 0:
        kernel, out = read_kernel(PRODUCT), np.ones((n, m), "float32")
        compiled(kernel).run([np.zeros((n, 0), "float32"), np.zeros((0, m), "float32"), out], [n, m, 0], n * m)
        assert not out.any()
        return
    native = compiled(read_kernel(PRODUCT))
    assert native.plan is not None and native.plan.shape.rows > 1
    both(PRODUCT, n * m, a=numbers(n, depth), b=numbers(depth, m, seed=1), c=np.zeros((n, m), "float32"))


def test_a_convolution_with_a_border() -> None:
    native = compiled(read_kernel(CONVOLUTION))
    assert native.plan is not None and native.plan.axis == 2  # rows of the block are output channels
    y = np.zeros((2, 5, 4, 19), "float32")
    both(CONVOLUTION, y.size, x=numbers(2, 3, 4, 19), k=numbers(5, 3, 3, 3, seed=1), b=numbers(5, seed=2), y=y)


def test_parts_of_a_run_are_the_same_as_the_whole() -> None:
    native = compiled(read_kernel(CONVOLUTION))
    x, k, b, values = numbers(2, 2, 5, 18), numbers(9, 2, 3, 3, seed=1), numbers(9, seed=2), [2, 2, 9, 5, 18]
    whole, parts = np.zeros((2, 9, 5, 18), "float32"), np.zeros((2, 9, 5, 18), "float32")
    native.run([x, k, b, whole], values, whole.size)
    for begin, end in pairwise([0, 1, 7, 18, 18, 19, 100, 370, 371, 800, 1000, whole.size]):
        native.run_part(begin, end, whole.size, [x, k, b, parts], values)
    assert parts.tobytes() == whole.tobytes()
    with pytest.raises(LaminarError, match="instances 5 to 4"):
        native.run_part(5, 4, whole.size, [x, k, b, parts], values)


def test_division_shifts_and_casts_never_trap() -> None:
    source = """void kernel(int i, int n, const int a[n], const int b[n], const float f[n], int q[n], int r[n], int s[n], int t[n],
                long u[n], bool v[n]) {
        q[i] = a[i] / b[i];
        r[i] = a[i] % b[i];
        s[i] = (a[i] << b[i]) ^ (a[i] >> b[i]);
        t[i] = (int)f[i];
        u[i] = (long)f[i] / (long)b[i];
        v[i] = f[i] && a[i];
    }"""
    edges = np.array([0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 5], "int32")
    a, b = (one.ravel() for one in np.meshgrid(edges, edges))
    reals = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 3e9, -3e9, 1e30], "float32")
    both(source, a=a.copy(), b=b.copy(), f=np.tile(reals, 8))


def test_atomics_and_bools_and_gathers() -> None:
    source = """void kernel(int i, int n, const int at[n], const bool use[n], const float x[n], int hits[5], float sums[5], float low[5]) {
        if (use[i]) atomic_add(&hits[at[i]], 1);
        atomic_add(&sums[at[i]], x[at[i]] + x[i]);
        atomic_min(&low[at[i]], x[i]);
    }"""
    rng = np.random.default_rng(0)
    at, use = rng.integers(0, 5, 100).astype("int32"), rng.integers(0, 2, 100).astype(bool)
    both(source, at=at, use=use, x=numbers(100), hits=np.zeros(5, "int32"), sums=np.zeros(5, "float32"), low=np.zeros(5, "float32"))


def test_instances_that_depend_on_each_other_run_in_order() -> None:
    source = "void kernel(int i, int n, float y[n]) { if (i > 0) y[i] = y[i] + y[i - 1]; }"
    native = compiled(read_kernel(source))
    assert not native.independent and native.plan is None
    y = np.ones(100, "float32")
    native.run([y], [], 100, threads=2)
    assert y.tolist() == list(range(1, 101))


@pytest.mark.parametrize("options", [SCALAR, BLOCKS])
def test_an_access_out_of_bounds_is_not_done(options: Options) -> None:
    source = "void kernel(int i, int n, int k, const int at[n], const float x[k], float y[n]) {\n  y[i] = x[at[i]];\n}"
    at = np.arange(40, dtype="int32")
    at[21] = 77
    with pytest.raises(LaminarError, match=r"kernel.c:2:\d+: instance 21 uses element 77 of `x`, which has 40") as raised:
        compiled(read_kernel(source), options).run([at, numbers(40), np.zeros(40, "float32")], [40], 40)
    assert raised.value.code == "L703"


@pytest.mark.parametrize("options", [SCALAR, BLOCKS])
@pytest.mark.parametrize("test", ["x[i + 1] < 0 && k > n", "k < x[i + 1] && i < k && k > n", "i < n && x[i + 1] < 0 && k > n"])
def test_a_condition_that_is_the_same_for_all_hides_no_failure_before_it(options: Options, test: str) -> None:
    """It is looked at by a jump, but not before an access that C looks at first and that may be out of bounds."""
    kernel = read_kernel(f"void kernel(int i, int n, int k, const float x[n], float y[n]) {{ if ({test}) y[i] = 1; }}")
    with pytest.raises(LaminarError, match="L703"):
        compiled(kernel, options).run([numbers(40), np.zeros(40, "float32")], [3], 40)


@pytest.mark.parametrize("options", [SCALAR, BLOCKS])
def test_more_instances_than_elements(options: Options) -> None:
    native = compiled(read_kernel(PRODUCT), options)
    given = [numbers(4, 3), numbers(3, 4), np.zeros((4, 4), "float32")]
    with pytest.raises(LaminarError, match="instance 16 uses element 4 of `a`"):
        native.run(given, [4, 4, 3], 17)


@pytest.mark.parametrize("options", [SCALAR, BLOCKS])
def test_a_loop_without_an_end(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.kernels.compile.statements.MOST_ROUNDS", 1000)
    source = "void kernel(int i, int n, const int x[n], int y[n]) {\n  int k = 1;\n  while (k != x[i]) k = k * 3;\n  y[i] = k;\n}"
    x = np.array([1, 3, 27] * 10 + [2], "int32")
    native = compiled(read_kernel(source), Options(options.lanes, cached=False))
    with pytest.raises(LaminarError, match=r"kernel\.c:3:3: the loop went on for more than 1,000 rounds in instance 30"):
        native.run([x, np.zeros(31, "int32")], [], 31)


def test_sizes_of_zero_and_no_instances() -> None:
    native = compiled(read_kernel(PRODUCT))
    empty = np.zeros((0, 0), "float32")
    native.run([empty, empty, empty], [0, 0, 0], 0)
    with pytest.raises(LaminarError, match="L703"):
        native.run([empty, empty, empty], [0, 0, 0], 3)


@pytest.mark.parametrize(
    ("arrays", "values", "count", "said"),
    [
        ([numbers(4)], [0.5], 4, "2 arrays and 1 values are needed"),
        ([numbers(4), numbers(5)], [0.5], 4, r"`y` is float32 \(5,\), and should be float32 \(4,\)"),
        ([numbers(4), np.zeros(4)], [0.5], 4, "`y` is float64"),
        ([numbers(8)[::2], numbers(4)], [0.5], 4, "not contiguous"),
        ([numbers(4), numbers(4)], [0.5], -1, "-1 instances"),
        ([numbers(4), numbers(4)], [0.5], 2**31, "2,147,483,648 instances"),
    ],
)
def test_wrong_arguments(arrays: list[Any], values: list[Any], count: int, said: str) -> None:
    with pytest.raises(LaminarError, match=said) as raised:
        compiled(read_kernel(LEAKY)).run(arrays, values, count)
    assert raised.value.code == "L702"


def test_an_output_that_is_an_input() -> None:
    x = numbers(8)
    with pytest.raises(LaminarError, match="`y` and `x` are the same memory"):
        compiled(read_kernel(LEAKY)).run([x, x], [0.5], 8)


def test_arrays_need_no_more_than_their_own_alignment() -> None:
    x, y = np.zeros(4 * 33 + 1, "int8")[1:].view("float32"), np.zeros(4 * 33 + 2, "int8")[2:].view("float32")
    compiled(read_kernel(LEAKY)).run([x, y], [0.5], 33)


def test_code_is_kept_and_made_again_if_it_is_spoilt(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path))
    kernel, made = read_kernel(LEAKY), []
    monkeypatch.setattr("laminar.kernels.compile.native.built", lambda *given: made.append(1) or _built(*given))
    from laminar.kernels.compile.build import built as _built

    for _ in range(2):
        compiled(kernel)
    assert len(made) == 1
    (path,) = tmp_path.glob("kernels/*/*.o")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    compiled(kernel)
    assert len(made) == 2
    path.write_bytes(b"")
    native = compiled(kernel)
    assert len(made) == 3 and isinstance(native, Native) and native.plan == Plan(Shape(1, 1, native.plan.shape.width))
    assert not [one for one in tmp_path.rglob("*") if one.name.endswith(".tmp")]


def shared_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.kernels.compile.together.LEAST", 0.0)
    monkeypatch.setattr("laminar.kernels.compile.together.ALONE", 0.0)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shared_always(monkeypatch)
    both(PRODUCT, 30 * 40, (SCALAR, BLOCKS), threads, a=numbers(30, 9), b=numbers(9, 40, seed=1), c=np.zeros((30, 40), "float32"))
    both(LEAKY, None, (LANES,), threads, x=numbers(1001), slope=0.1)


def test_the_first_failure_of_several_threads_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    shared_always(monkeypatch)
    source = "void kernel(int i, int n, const int at[n], int y[n]) { y[i] = at[at[i]]; }"
    at = np.zeros(100_000, "int32")
    at[5:] = -1
    with pytest.raises(LaminarError, match="instance 5 uses element -1"):
        compiled(read_kernel(source)).run([at, np.zeros_like(at)], [], at.size, threads=2)


def test_local_arrays_that_no_stack_holds() -> None:
    arrays = "".join(f"float a{one}[16384]; a{one}[i % 9] = x[i];" for one in range(40))
    source = f"void kernel(int i, int n, const float x[n], float y[n]) {{ {arrays} y[i] = a0[0]; }}"
    with pytest.raises(LaminarError, match="all local arrays have 2,621,440 bytes"):
        compiled(read_kernel(source))


def test_values_beyond_their_type() -> None:
    y = np.zeros(4, "float32")
    compiled(read_kernel(LEAKY)).run([-np.ones(4, "float32"), y], [1e300], 4)
    assert np.isneginf(y).all()


@pytest.mark.parametrize("offset", [0, 1, 4, 15])
@pytest.mark.parametrize("count", [1023, 1024, 5001])
def test_arrays_that_begin_within_a_line_of_the_cache(offset: int, count: int) -> None:
    memory = [np.zeros(count + 32, "float32") for _ in range(2)]
    x, y = (one[(-one.ctypes.data // 4) % 16 + offset :][:count] for one in memory)
    x[:] = numbers(count)
    kernel = read_kernel(LEAKY)
    for threads in (1, 2):
        y[:] = 7
        compiled(kernel).run([x, y], [0.1], count, threads)
        assert np.array_equal(y, np.where(x < 0, np.float32(0.1) * x, x))
        assert np.count_nonzero(memory[1]) == np.count_nonzero(y)  # and nothing beside it
    counted = instrumented(kernel, {"x": x, "y": np.zeros_like(x)}, {"slope": 0.1}, count)
    assert counted.counts["global"].reads == counted.counts["global"].writes == count


def test_short_jobs_are_not_shared_for_a_while_after_a_stall() -> None:
    made = Pool()
    rests = []
    for lost in [2e-3, 2e-3, *[-1e-6] * 1000, 2e-3]:
        before = made.rests
        made.learn(lost)
        if made.rests != before:
            rests.append(made._rest)  # of the next time
    assert rests == [2 * RESTS[0], 4 * RESTS[0], 2 * RESTS[0]]


def test_helpers_are_woken_up_for_the_second_of_two_short_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.kernels.compile.pool.NEAR", 1000.0)
    made, roused = Pool(), []
    made._last = -2000.0
    made.rouse = roused.append  # type: ignore[method-assign,assignment]
    made.nobody(1)
    assert not roused
    made.nobody(1)
    assert roused == [1]


def until(holds: Callable[[], bool]) -> None:
    """Others have to get there; never, if they are not right."""
    ends = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends
        os.sched_yield()


def test_a_helper_sleeps_until_it_is_called_and_may_go_anywhere_then() -> None:
    made = Pool()
    for _ in range(3):
        made.rouse(1)
        until(lambda: made._board.asleep == 1)
        assert made._board.awake == 0 and len(made._threads) == 1
    if hasattr(os, "sched_getaffinity"):
        until(lambda: os.sched_getaffinity(made._threads[0]) == os.sched_getaffinity(0))
    assert made._board.rung >= 2  # the first time it may not have been asleep yet
