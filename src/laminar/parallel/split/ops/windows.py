"""Windows: convolutions and pooling. A worker that has some rows of an image fetches what its windows need from its neighbours."""

from __future__ import annotations

from typing import Any, Final

from laminar.parallel.split.dims import Atom, Dim, Dims, axes_of, whole
from laminar.parallel.split.operator_rule import OperatorRule, all_whole, each, names
from laminar.parallel.split.place import Decision, Site

_NO_BATCH: Final = "has no dimension for the batch, so every worker computes all of it"
SPACE: Final = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}


def convolution(site: Site) -> Decision:
    x, weight, bias = site.arg("input"), site.arg("weight"), site.arg("bias")
    taken, shape = site.have[site.index(x)], site.tensor_sizes(weight)
    n = len(shape) - 2
    if len(taken) != n + 2:
        return all_whole(site, _NO_BATCH)
    _name(site, taken, n)
    stride, dilation = _each(site.arg("stride"), n), _each(site.arg("dilation"), n)
    padding = _padding(site.arg("padding"), shape[2:], dilation, n)
    groups = site.arg("groups")
    space = [
        _windows(site, taken[2 + d], site.sizes[0][2 + d], shape[2 + d], stride[d], dilation[d], padding[d], SPACE[n][d]) for d in range(n)
    ]
    beside = (taken[0], *(dim for dim, _, _ in space))
    if groups == 1:
        channels = taken[1]
        made = site.make("channels", shape[0], beside=beside, within=(channels,))
        through, facts = channels, {"groups": 1}
    else:
        channels, made, through, facts = _grouped(site, taken[1], shape, groups)
    sums = tuple(dict.fromkeys(axes_of((channels,)))) if groups == 1 else ()
    needs = {x: (taken[0], channels, *(dim for dim, _, _ in space)), weight: (made, through, *whole(site.have[site.index(weight)])[2:])}
    if bias is not None:
        needs[bias] = (made,)
    return Decision(
        [needs[operand] for operand in site.operands],
        [(taken[0], made, *(dim for _, dim, _ in space))],
        sums=sums,
        late=frozenset() if bias is None else frozenset({site.index(bias)}),
        run="convolution",
        facts={**facts, "n": n, "stride": stride, "dilation": dilation, "padding": padding, "windows": [w for _, _, w in space]},
        why=_why(sums, made, [w for _, _, w in space]),
    )


def _grouped(site: Site, channels: Dim, shape: tuple[int, ...], groups: int) -> tuple[Dim, Dim, Dim, dict[str, Any]]:
    """Channels in groups of their own stay with their worker where whole groups do."""
    axis = channels[0].axis if channels and axes_of((channels,)) == [channels[0].axis] else None
    if axis is not None and channels[0].size % site.mesh[axis]:
        axis = None
    inside = (Atom("channels", shape[1]),) if shape[1] > 1 else ()
    if axis is not None and groups % site.mesh[axis] == 0:
        rest = shape[0] // groups
        made = (Atom("channels", groups, axis), *((Atom("channels", rest),) if rest > 1 else ()))
        return channels, made, inside, {"groups": groups // site.mesh[axis]}
    return whole((channels,))[0], (Atom("channels", shape[0]),), inside, {"groups": groups}


def max_pool(site: Site) -> Decision:
    x = site.have[0]
    n = int(site.op[-2])
    if len(x) != n + 2:
        return all_whole(site, _NO_BATCH)
    size = _each(site.arg("kernel_size"), n)
    stride = _each(site.arg("stride") or size, n)
    padding = [(p, p) for p in _each(site.arg("padding"), n)]
    dilation = _each(site.arg("dilation"), n)
    space = [_windows(site, x[2 + d], site.sizes[0][2 + d], size[d], stride[d], dilation[d], padding[d], SPACE[n][d]) for d in range(n)]
    windows = [w for _, _, w in space]
    return Decision(
        [(*x[:2], *(dim for dim, _, _ in space))],
        [(*x[:2], *(dim for _, dim, _ in space))],
        run="max_pool" if any(windows) else "",
        facts={
            "n": n,
            "size": size,
            "stride": stride,
            "dilation": dilation,
            "padding": padding,
            "windows": windows,
            "ceil_mode": bool(site.arg("ceil_mode")),
        },
        why=_why((), (), windows),
    )


def avg_pool(site: Site) -> Decision:
    """Split where no window reaches over the edge: what is counted there depends on settings."""
    x = site.have[0]
    n = int(site.op[-2])
    if len(x) != n + 2:
        return all_whole(site, _NO_BATCH)
    size = _each(site.arg("kernel_size"), n)
    stride = _each(site.arg("stride") or size, n)
    if any(_each(site.arg("padding"), n)) or site.arg("ceil_mode"):
        dims = (*x[:2], *(site.keep_whole(dim) for dim in x[2:]))
        out = tuple((Atom(SPACE[n][d], site.sizes[0][2 + d]),) if site.sizes[0][2 + d] > 1 else () for d in range(n))
        return Decision([dims], [(*x[:2], *out)])
    space = [_windows(site, x[2 + d], site.sizes[0][2 + d], size[d], stride[d], 1, (0, 0), SPACE[n][d]) for d in range(n)]
    windows = [w for _, _, w in space]
    return Decision(
        [(*x[:2], *(dim for dim, _, _ in space))],
        [(*x[:2], *(dim for _, dim, _ in space))],
        run="avg_pool" if any(windows) else "",
        facts={
            "n": n,
            "size": size,
            "stride": stride,
            "dilation": [1] * n,
            "padding": [(0, 0)] * n,
            "windows": windows,
            "divisor": site.arg("divisor_override"),
        },
        why=_why((), (), windows),
    )


def adaptive_avg_pool(site: Site) -> Decision:
    x, n = site.have[0], int(site.op[-2])
    if len(x) != n + 2:
        return all_whole(site, _NO_BATCH)
    if all(size == 1 for size in site.sizes[0][2:]):  # the mean of everything
        dims = list(range(2, n + 2))
        count = 1
        for d in dims:
            for atom in x[d]:
                count *= atom.size
        axes = tuple(dict.fromkeys(axes_of(x[2:])))
        return Decision(
            [x], [(*x[:2], *([()] * n))], sums=axes, run="added", facts={"dims": dims, "keep": True, "count": count, "dtype": None}
        )
    dims_needed = (*x[:2], *(site.keep_whole(dim) for dim in x[2:]))
    out = tuple((Atom(SPACE[n][d], site.sizes[0][2 + d]),) if site.sizes[0][2 + d] > 1 else () for d in range(n))
    return Decision([dims_needed], [(*x[:2], *out)])


def _windows(
    site: Site, dim: Dim, out: int, size: int, stride: int, dilation: int, padding: tuple[int, int], name: str
) -> tuple[Dim, Dim, dict[str, Any] | None]:
    """A dimension that windows run over: as it is needed, as it is given, and what workers have to fetch (None: nothing)."""
    axis = dim[0].axis if len(dim) == 1 else None
    if axis is None or out < site.mesh[axis]:
        return whole((dim,))[0], (Atom(name, out),) if out > 1 else (), None
    facts = {"axis": axis, "in": dim[0].size, "out": out, "size": size, "stride": stride, "dilation": dilation, "padding": padding}
    return dim, (Atom(name, out, axis),), facts


def _name(site: Site, taken: Dims, n: int) -> None:
    site.rename(taken[1], "channels")
    for d in range(n):
        site.rename(taken[2 + d], SPACE[n][d])


def _padding(given: Any, size: tuple[int, ...], dilation: list[int], n: int) -> list[tuple[int, int]]:
    if given == "valid":
        return [(0, 0)] * n
    if given == "same":
        total = [dilation[d] * (size[d] - 1) for d in range(n)]
        return [(t // 2, t - t // 2) for t in total]
    return [(p, p) for p in _each(given, n)]


def _each(given: Any, n: int) -> list[int]:
    found = [given] if isinstance(given, int) else list(given)
    return found * n if len(found) == 1 else found


def _why(sums: tuple[str, ...], made: Dim, windows: list[dict[str, Any] | None]) -> str:
    said = []
    if sums:
        said.append(f"its input channels are split over {', '.join(sums)}: parts are added up")
    elif axes := axes_of((made,)):
        said.append(f"gives its own part of the channels on {', '.join(axes)}")
    said += [f"fetches rows of neighbours on {w['axis']}" for w in windows if w and w["size"] > w["stride"]]
    return "; ".join(said)


RULES: Final[dict[str, OperatorRule]] = {
    **each("conv1d conv2d", OperatorRule(convolution, tensors=names("input weight bias"), reads=names("stride padding dilation groups"))),
    **each(
        "max_pool1d max_pool2d", OperatorRule(max_pool, tensors=names("self"), reads=names("kernel_size stride padding dilation ceil_mode"))
    ),
    **each(
        "avg_pool1d avg_pool2d",  # what is counted at the edge matters where windows reach over it only
        OperatorRule(
            avg_pool, tensors=names("self"), reads=names("kernel_size stride padding ceil_mode count_include_pad divisor_override")
        ),
    ),
    **each("adaptive_avg_pool1d adaptive_avg_pool2d", OperatorRule(adaptive_avg_pool, tensors=names("self"), reads=names("output_size"))),
}
