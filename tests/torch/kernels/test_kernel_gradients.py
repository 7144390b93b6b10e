"""Gradients of kernels in torch: gradcheck, opcheck, tracing; adjoints by hand; what has none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kernel_texts import BOTH, CONVOLUTION, LEAKY, MATMUL, POOL, SOFTMAX, double
from torch import Tensor, nn
from torch.nn import functional

import laminar
from laminar.core.errors import LaminarError
from laminar.kernels.language.tree import Atomic, statements
from laminar.kernels.operator.autograd import summed
from laminar.kernels.operator.function import KernelFunction


def made(text: str, name: str = "k.c") -> KernelFunction:
    return laminar.kernel(name, source=text)


def inputs(*shapes: tuple[int, ...]) -> list[Tensor]:
    torch.manual_seed(3)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


CASES: dict[str, tuple[str, tuple[tuple[int, ...], ...], dict[str, Any]]] = {
    "leaky": (LEAKY, ((3, 4),), {"slope": 0.1}),
    "softmax": (SOFTMAX, ((3, 5),), {}),
    "matmul": (MATMUL, ((3, 4), (4, 2)), {}),
    "convolution": (CONVOLUTION, ((2, 2, 3, 4), (3, 2, 3, 3), (3,)), {}),
    "pool": (POOL, ((2, 4, 4),), {}),
    "changed in place": (BOTH, ((4,), (4,)), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_gradcheck(name: str) -> None:
    text, shapes, values = CASES[name]
    kernel = made(double(text), f"{name}.c")
    assert torch.autograd.gradcheck(lambda *given: kernel(*given, **values), inputs(*shapes))


@pytest.mark.parametrize("name", CASES)
def test_opcheck(name: str) -> None:
    text, shapes, values = CASES[name]
    kernel = made(double(text), f"{name}.c")
    given = (*inputs(*shapes), *(values.get(one.name) for one in kernel.kernel.values), None)
    assert set(torch.library.opcheck(kernel.operator(), given).values()) == {"SUCCESS"}


def test_a_value_that_is_trained() -> None:
    kernel, (x, slope) = made(double(LEAKY), "leaky.c"), inputs((5,), ())
    assert torch.autograd.gradcheck(lambda a, b: kernel(a, slope=b), (x, slope))
    assert torch.autograd.gradcheck(lambda b: kernel(x.detach(), slope=b), (slope,))
    assert set(torch.library.opcheck(kernel.operator(["slope"]), (x, slope, None)).values()) == {"SUCCESS"}


def test_as_a_module() -> None:
    prelu = made(LEAKY).module(slope=torch.tensor(0.25))
    twin, x = nn.PReLU(), torch.randn(4, 3)
    assert [name for name, _ in prelu.named_parameters()] == ["slope"]
    for one in (prelu, twin):
        one(x).square().sum().backward()
    torch.testing.assert_close(prelu.slope.grad, twin.weight.grad[0])  # type: ignore[index]
    assert "leaky.c, slope=0.1" in repr(made(LEAKY, "leaky.c").module(slope=0.1))


@pytest.mark.parametrize(("name", "said"), [("slop", "there is no parameter `slop`; did you mean 'slope'?"), ("y", "`y` is an output")])
def test_a_module_is_not_made_of_unknown_parameters(name: str, said: str) -> None:
    with pytest.raises(LaminarError) as caught:
        made(LEAKY, "leaky.c").module(**{name: 0.1})
    assert caught.value.code == "L702" and said in caught.value.message and caught.value.hint


def test_part_of_the_inputs() -> None:
    kernel = made(CONVOLUTION)
    x, weight, bias = torch.randn(2, 2, 4, 4), torch.randn(3, 2, 3, 3), torch.randn(3)
    for wanted in ((True, False, False), (False, True, False), (False, False, True), (True, True, True)):
        found, known = ([one.clone().requires_grad_(want) for one, want in zip((x, weight, bias), wanted, strict=True)] for _ in "ab")
        kernel(*found).square().sum().backward()
        functional.conv2d(known[0], known[1], known[2], padding=1).square().sum().backward()
        for one, other in zip(found, known, strict=True):
            assert (one.grad is None) == (other.grad is None)
            if one.grad is not None:
                torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)


def test_no_more_is_kept_than_is_needed() -> None:
    scale = made("void kernel(int i, int n, float s, const float x[n], float y[n]) { y[i] = s * x[i]; }")
    x = torch.ones(4, requires_grad=True)
    y = x * 1
    z = scale(y, s=2.0)
    y.add_(1)  # nobody needs it any more
    z.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0] * 4
    saved = made(LEAKY)(x, slope=0.1).grad_fn.saved_tensors  # type: ignore[union-attr]
    assert [one.data_ptr() for one in saved] == [x.data_ptr()]


def test_another_number_of_instances_has_its_own_gradient() -> None:
    """By elements only where the kernel's text says how many there are."""
    a, b = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((4, 3), (3, 2)))
    kernel = made(double(MATMUL))
    kernel(a, b, instances=4).sum().backward()
    assert a.grad is not None and b.grad is not None
    torch.testing.assert_close(a.grad, torch.cat([b.detach().sum(1).expand(2, 3), torch.zeros(2, 3, dtype=torch.float64)]))
    torch.testing.assert_close(b.grad, a.detach()[:2].sum(0)[:, None].expand(3, 2))
    wanted = frozenset({"a", "b"})
    by_element = [kernel.backwards(wanted, as_said=said) for said in (True, False)]
    assert [[one.by_element for one in found] for found in by_element if isinstance(found, tuple)] == [[True, True], [False]]


def test_parameters_may_have_the_names_that_adjoints_use() -> None:
    text = (
        double(MATMUL)
        .replace("int i, int n,", "int element, int elements,")
        .replace("i / p", "element / p")
        .replace("i % p", "element % p")
    )
    assert torch.autograd.gradcheck(made(text), inputs((3, 4), (4, 2)))


def test_gradients_repeat_exactly() -> None:
    kernel, x, weight, bias = made(CONVOLUTION), torch.randn(8, 2, 8, 8), torch.randn(16, 2, 3, 3), torch.randn(16)
    grads = []
    for _ in range(2):
        own = weight.clone().requires_grad_()
        kernel(x, own, bias).sin().sum().backward()
        grads.append(own.grad)
    assert grads[0] is not None and grads[1] is not None and torch.equal(grads[0], grads[1])


BY_HAND = """void kernel(int i, int n, const double x[n], double y[n]) { y[i] = 1 / (1 + exp(-x[i])); }
void NAME(int i, int n, const double y[n], const double grad_y[n], double grad_x[n]) {
    grad_x[i] = FACTOR * grad_y[i] * y[i] * (1 - y[i]);
}"""


@pytest.mark.parametrize("name", ["kernel_backward", "sigmoid_backward"])
def test_an_adjoint_by_hand_comes_first(name: str) -> None:
    once, twice = (made(BY_HAND.replace("NAME", name).replace("FACTOR", str(factor)), "sigmoid.c") for factor in (1, 2))
    (x,) = inputs((4,))
    assert torch.autograd.gradcheck(once, (x,))
    twice(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * torch.sigmoid(x) * (1 - torch.sigmoid(x)))
    assert set(torch.library.opcheck(once.operator(), (x, None)).values()) == {"SUCCESS"}


@pytest.mark.parametrize(
    ("parameters", "code", "said"),
    [
        (
            "const float grad_z[n], float grad_x[n]",
            "L701",
            "`grad_z` of kernel_backward is neither a parameter of the kernel nor grad_ and one",
        ),
        ("const double grad_y[n], float grad_x[n]", "L701", "`grad_y` of kernel_backward is double, and `y` is float"),
        ("const float grad_y[n], float x[n]", "L705", "kernel_backward has no grad_x"),
    ],
)
def test_an_adjoint_by_hand_that_does_not_fit(parameters: str, code: str, said: str) -> None:
    body = "grad_x[i] = 1;" if "grad_x" in parameters else "x[i] = 1;"
    forward = "void kernel(int i, int n, const float x[n], float y[n]) { y[i] = x[i]; }"
    kernel = made(f"{forward}\nvoid kernel_backward(int i, int n, {parameters}) {{ {body} }}")
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(LaminarError, match=said) as caught:
        kernel(x).sum().backward()
    assert caught.value.code == code


def test_outputs_are_as_the_kernel_left_them_with_const_or_without() -> None:
    (x,) = inputs((4,))
    assert torch.autograd.gradcheck(
        made(BY_HAND.replace("NAME", "kernel_backward").replace("FACTOR", "1").replace("const double y", "double y")), (x,)
    )


def test_the_gradient_of_a_sum_in_place_goes_on_as_it_came() -> None:
    add = made("""void kernel(int i, int n, const double x[n], double total[n]) { total[i] += x[i]; }
    void kernel_backward(int i, int n, const double grad_total[n], double grad_x[n]) { grad_x[i] = grad_total[i]; }""")
    given = inputs((4,), (4,))
    assert torch.autograd.gradcheck(add, given)
    assert set(torch.library.opcheck(add.operator(), (*given, None)).values()) == {"SUCCESS"}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("const float grad_y[100000000], float grad_x[n]", r"\[100000000\], and here it has \[2, 2\]"),
        ("const float grad_y[n], float grad_x[100000000]", r"\[100000000\], and here it has \[2, 2\]"),
        ("const float grad_y[n], const float x[2 * n], float grad_x[n]", r"\[8\], and here it has \[2, 2\]"),
    ],
)
def test_an_adjoint_by_hand_with_other_sizes_reads_nobody_elses_memory(parameters: str, said: str) -> None:
    forward = "void kernel(int i, int n, const float x[n], float y[n]) { y[i] = x[i]; }"
    more = "+ x[2 * n - 1]" if " x[" in parameters else ""
    kernel = made(f"{forward}\nvoid kernel_backward(int i, int n, {parameters}) {{ grad_x[i] = grad_y[i] {more}; }}", "wide.c")
    with pytest.raises(LaminarError, match=said) as caught:
        kernel(torch.ones(2, 2, requires_grad=True)).sum().backward()
    assert caught.value.code == "L702" and caught.value.message.startswith("wide.c:2:") and caught.value.hint


def test_a_gradient_of_another_size_is_refused() -> None:
    rows = made("""void kernel(int i, int n, int m, const float x[n][m], float y[n][m]) { for (int k = 0; k < m; k++) y[i][k] = x[i][k]; }
    void kernel_backward(int i, int n, int m, const float grad_y[n][m], float grad_x[n]) { grad_x[i] = grad_y[i][0]; }""")
    with pytest.raises(LaminarError, match=r"the gradient of `x` has the shape \[3\], and `x` has \[3, 2\]") as caught:
        rows(torch.ones(3, 2, requires_grad=True)).sum().backward()
    assert caught.value.code == "L702" and "grad_x" in (caught.value.hint or "")


def test_an_adjoint_by_hand_may_see_all_elements_in_a_row() -> None:
    text = """#pragma laminar instances rows * cols
    void kernel(int i, int n, int rows, int cols, const float x[rows][cols], float y[rows][cols]) {
        y[i / cols][i % cols] = 3 * x[i / cols][i % cols];
    }
    void kernel_backward(int i, int n, int rows, int cols, const float grad_y[n], float grad_x[n]) { grad_x[i] = 3 * grad_y[i]; }"""
    kernel, x = made(text), torch.ones(3, 2, requires_grad=True)
    for call in (kernel, lambda x: kernel.operator()(x, None, None, None)):
        (found,) = torch.autograd.grad(call(x).sum(), x)
        assert found.tolist() == [[3.0, 3.0]] * 3


def test_a_kernel_without_a_derivative_can_be_called() -> None:
    kernel = made(
        "void kernel(int i, int n, const float x[n], float y[n]) {\n    float v = x[i];\n    while (v > 1) v = v / 2;\n    y[i] = v;\n}",
        "halve.c",
    )
    x = torch.full((3,), 5.0, requires_grad=True)
    y = kernel(x)
    assert y.tolist() == [0.625] * 3
    with pytest.raises(LaminarError, match=r"halve.c:3:5: no gradient can be derived: this loop does not count") as caught:
        y.sum().backward()
    assert caught.value.code == "L705"


@pytest.mark.parametrize("name", ["softmax", "matmul", "convolution", "changed in place"])
def test_gradgradcheck(name: str) -> None:
    text, shapes, values = CASES[name]
    kernel = made(double(text), f"{name}.c")
    assert torch.autograd.gradgradcheck(lambda *given: kernel(*given, **values), inputs(*shapes))


def test_gradients_of_gradients_of_values_and_of_adjoints_by_hand() -> None:
    swish = "void kernel(int i, int n, double s, const double x[n], double y[n]) { y[i] = x[i] / (1 + exp(-s * x[i])); }"
    kernel, (x, s) = made(swish), inputs((4,), ())
    assert torch.autograd.gradgradcheck(lambda a, b: kernel(a, s=b), (x, s))
    sigmoid = made(BY_HAND.replace("NAME", "kernel_backward").replace("FACTOR", "1"))
    assert torch.autograd.gradgradcheck(sigmoid, (x,))
    (first,) = torch.autograd.grad(sigmoid(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), x)
    y = torch.sigmoid(x.detach())
    torch.testing.assert_close(third, y * (1 - y) * (1 - 6 * y + 6 * y * y))


def test_the_gradient_of_a_gradient_that_cannot_be_derived_is_refused() -> None:
    text = """void kernel(int i, int n, const double x[n], double y[n]) { y[i] = x[i]; }
    void kernel_backward(int i, int n, const double x[n], const double grad_y[n], double grad_x[n]) {
        double v = grad_y[i];
        while (v > 1) v = v / 2;
        grad_x[i] = v;
    }"""
    (x,) = inputs((3,))
    (first,) = torch.autograd.grad(made(text, "k.c")(x).square().sum(), x, create_graph=True)
    with pytest.raises(
        LaminarError, match=r"the gradient of a kernel's gradient: k.c \(derived\):4:9: no gradient can be derived"
    ) as caught:
        first.sum().backward()
    assert caught.value.code == "L705" and "create_graph" in (caught.value.hint or "")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 3, 3, 3)), nn.Parameter(torch.randn(4))
        self.convolution, self.leaky = made(CONVOLUTION, "convolution.c"), made(LEAKY, "leaky.c").module(slope=torch.tensor(0.1))
        self.head = nn.Linear(4 * 20, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.leaky(self.convolution(x, self.weight, self.bias)).flatten(1))


def test_export_with_any_batch() -> None:
    net = Net()
    program = torch.export.export(net, (torch.randn(3, 3, 5, 4),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), strict=False)
    calls = [str(node.target) for node in program.graph.nodes if "laminar_kernels" in str(node.target)]
    assert [name.rpartition(".")[0].split(".")[1][:5] for name in calls] == ["convo", "leaky"]
    x = torch.randn(7, 3, 5, 4)
    torch.testing.assert_close(program.module()(x), net(x))


def test_torch_compile_sees_one_graph() -> None:
    net, x = Net(), torch.randn(2, 3, 5, 4)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    wanted = torch.autograd.grad(net(x).sum(), list(net.parameters()))
    found = torch.autograd.grad(compiled(x).sum(), list(net.parameters()))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


def filter_gradient() -> tuple[Tensor, Tensor]:
    """Of a convolution's filter, by the kernel and by torch."""
    torch.manual_seed(0)
    x, bias = torch.randn(3, 2, 7, 37), torch.randn(4)
    weight = torch.randn(4, 2, 3, 3, requires_grad=True)
    share = torch.randn(3, 4, 7, 37)
    (ours,) = torch.autograd.grad(laminar.kernel("convolution.c", source=CONVOLUTION)(x, weight, bias), weight, share)
    (theirs,) = torch.autograd.grad(functional.conv2d(x, weight, bias, padding=1), weight, share)
    return ours, theirs


def test_the_gradient_of_a_filter_is_added_up_without_atomics() -> None:
    found = laminar.kernel("convolution.c", source=CONVOLUTION).backwards(frozenset({"weight"}), as_said=True)
    assert not isinstance(found, LaminarError)
    (one,) = found
    assert one.otherwise is not None and not any(isinstance(part, Atomic) for part in statements(one.routine.kernel.body))
    ours, theirs = filter_gradient()
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_parts_of_a_gradient_that_are_too_many_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = filter_gradient()[0]
    monkeypatch.setattr("laminar.kernels.operator.autograd.MOST_PARTS", 4 * 2 * 9 * 37 - 1)
    monkeypatch.setattr("laminar.kernels.operator.autograd.summed", lambda _: pytest.fail("they were"))
    torch.testing.assert_close(filter_gradient()[0], kept, rtol=1e-4, atol=1e-4)


def test_sums_of_parts_do_not_depend_on_threads() -> None:
    parts, before = torch.randn(20_000, 33), torch.get_num_threads()
    made = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        made.append(summed(parts))
    torch.set_num_threads(before)
    assert torch.equal(made[0], made[1]) and torch.equal(made[0], made[2])


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own, when it derives forwards
def test_other_ways_to_derive_are_refused_and_not_zero() -> None:
    kernel, x = made(LEAKY), torch.randn(4)

    def dual() -> object:
        with torch.autograd.forward_ad.dual_level():
            return kernel(torch.autograd.forward_ad.make_dual(x, x), slope=0.1)

    ways = [
        lambda: torch.func.grad(lambda one: kernel(one, slope=0.1).sum())(x),
        lambda: torch.func.jvp(lambda one: kernel(one, slope=0.1), (x,), (x,)),
        lambda: torch.func.jacrev(lambda one: torch.func.vmap(lambda row: kernel(row, slope=0.1))(one[None]))(x),
        dual,
    ]
    for way in ways:
        with pytest.raises(LaminarError, match="go backwards") as error:
            way()
        assert error.value.code == "L705"
