"""Loads, stores and atomics to lines of Python: within bounds? has it a value? whose is it since the last barrier?

Of each element that more than one instance might meet over, the last one to write it is kept (w), the last to read it and one before that
(r, q), the same of atomics (c, d); `ws` and so on have the sites. Two readers are enough: whoever writes meets at least one that is not
itself. (Whole vector clocks, as FastTrack has them, Flanagan and Freund 2009, are not needed: barriers are among all.)
"""

from __future__ import annotations

from typing import Final

from laminar.kernels.emulate.arithmetic import ZERO
from laminar.kernels.emulate.writer import Kind, Site, Writer
from laminar.kernels.language.fold import folded
from laminar.kernels.language.tree import Atomic, Load, Object, Store

STRIDES: Final = 16
"""So many executions of a site by an instance are compared with those of its neighbour."""

SHADOWS: Final[dict[Kind, tuple[str, ...]]] = {"write": ("w",), "read": ("r", "q"), "atomic": ("c", "d")}
RIVALS: Final[dict[Kind, tuple[Kind, ...]]] = {
    "read": ("write", "atomic"),
    "write": ("write", "read", "atomic"),
    "atomic": ("write", "read"),
}


def element(w: Writer, node: Load | Store | Atomic, index: list[str], kind: Kind) -> tuple[Site, str, str]:
    """The site, the element's number in memory, and the condition that it is there (empty: for sure)."""
    object_ = node.object
    site, number = w.site(node.at, object_, kind), w.object(object_)
    w.hold(node, *index)
    sizes = [_size(object_, axis, number) for axis in range(len(index))]
    flat = index[0]
    for one, size in zip(index[1:], sizes[1:], strict=True):
        flat = f"({flat}) * {size} + {one}"
    if len(index) > 1:
        flat = w.temporary(flat)
    if object_.memory != "local":
        if site.once:
            w.line(f"x{site.number} = {flat}")
        else:
            with w.under(f"if m{site.number}:"):
                w.line(f"m{site.number} -= 1")
                w.line(f"l{site.number}.append({flat})")
    tests = [f"0 <= {one} < {size}" for one, size in zip(index, sizes, strict=True) if not _inside(one, size)]
    return site, flat, " and ".join(tests)


def _size(object_: Object, axis: int, number: int) -> str:
    known = folded(object_.shape[axis])
    return str(known.value) if known else f"s{number}_{axis}"


def _inside(index: str, size: str) -> bool:
    return index.isdigit() and size.isdigit() and int(index) < int(size)


def load(w: Writer, node: Load, index: list[str]) -> str:
    site, flat, test = element(w, node, index, "read")
    result = w.temporary()
    _guarded(w, site, test, index, [*watch(w, site, flat), *_taken(w, site, flat, result)], result)
    return result


def _taken(w: Writer, site: Site, flat: str, result: str) -> list[str]:
    lines = [f"{result} = a{w.object(site.object)}[{flat}]"]
    if site.object in w.watched:
        lines.append(f"if {result} is None: {result} = empty({site.number}, v0, {flat})")
    if w.traced:
        lines.append(f"got({w.end(site.at, site.object)}, v0, {flat}, {w.origin(site.object)}[{flat}])")
    return lines


def _left(w: Writer, site: Site, flat: str) -> list[str]:
    """Lines that leave word of who wrote the element."""
    return [f"{w.origin(site.object)}[{flat}] = ({w.end(site.at, site.object)}, v0)"] if w.traced else []


def store(w: Writer, node: Store, index: list[str], value: str) -> None:
    site, flat, test = element(w, node, index, "write")
    _guarded(w, site, test, index, [*watch(w, site, flat), f"a{w.object(node.object)}[{flat}] = {value}", *_left(w, site, flat)])


def change(w: Writer, node: Atomic, index: list[str], value: str) -> None:
    """An atomic."""
    site, flat, test = element(w, node, index, "atomic")
    old, object_, operator = w.temporary(), node.object, node.operator
    type_ = object_.type
    new = {"add": f"{old} + {value}", "min": f"f_fmin({old}, {value})", "max": f"f_fmax({old}, {value})"}[operator]
    target = f"a{w.object(object_)}[{flat}]"
    lines = [*watch(w, site, flat), *_taken(w, site, flat, old)]
    if operator == "add" and w.arithmetic and type_ in ("int", "long"):
        lines += [f"{old} = {new}", f"{target} = wrap_{type_}({old})"]
        lines.append(f"if {target} != {old}: wrapped({w.place(node.at, 'the sum')}, v0, {old}, {target})")
    elif operator == "add" and type_ == "float":
        lines += [f"cell[0] = {new}", f"{target} = cell[0]"]
    else:
        lines.append(f"{target} = wrap_{type_}({new})" if operator == "add" and type_ != "double" else f"{target} = {new}")
    _guarded(w, site, test, index, [*lines, *_left(w, site, flat)])


def _guarded(w: Writer, site: Site, test: str, index: list[str], lines: list[str], result: str = "") -> None:
    if not test:
        for line in lines:
            w.line(line)
        return
    w.line(f"if {test}:")
    for line in lines:
        w.line(" " + line)
    outside = f"outside({site.number}, v0, ({', '.join(index)},))"
    w.line("else:")
    w.line(f" {result} = {ZERO[site.object.type]}; {outside}" if result else f" {outside}")


def watch(w: Writer, site: Site, flat: str) -> list[str]:
    """Lines that find another instance at the same element, and leave word of this one."""
    object_, kind, number = site.object, site.kind, w.object(site.object)
    uses = w.uses.get(object_, set())
    if w.looked_at is not None and site.at not in w.looked_at:
        return []
    if object_.memory == "local" or not uses & set(RIVALS[kind]) or uses == {"read"}:
        return []
    lines: list[str] = []
    low = "base" if w.waits else "0"
    for rival in RIVALS[kind]:
        if rival not in uses:
            continue
        last, *second = (f"{shadow}{number}" for shadow in SHADOWS[rival])
        lines.append(f"o = {last}[{flat}]")
        lines.append(f"if o >= {low}:")
        lines.append(f" if o != me: race({site.number}, {flat}, {last}s[{flat}], o, me)")
        lines += [f" elif {other}[{flat}] >= {low}: race({site.number}, {flat}, {other}s[{flat}], {other}[{flat}], me)" for other in second]
    last, *second = (f"{shadow}{number}" for shadow in SHADOWS[kind])
    keep = [f"{last}[{flat}] = me", f"{last}s[{flat}] = {site.number}"]
    if not second:
        return lines + keep
    lines += [f"o = {last}[{flat}]", "if o != me:"]
    lines += [f" if o >= {low}: {other}[{flat}] = o; {other}s[{flat}] = {last}s[{flat}]" for other in second]
    return lines + [" " + line for line in keep]


def shadows(w: Writer) -> dict[str, Object]:
    """Names of the lists that the lines need, each as long as its object."""
    needed: dict[str, Object] = {}
    for object_, uses in w.uses.items():
        if object_.memory == "local" or uses == {"read"} or object_ not in w.objects:
            continue
        for kind in uses:
            if kind == "atomic" and uses == {"atomic"}:
                continue
            for shadow in SHADOWS[kind]:
                needed |= {f"{shadow}{w.objects[object_]}": object_, f"{shadow}{w.objects[object_]}s": object_}
    return needed
