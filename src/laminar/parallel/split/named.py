"""Named: which dimensions each module of a placed model has, and the refusal of rules that name others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from torch import nn

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.parallel.split.dims import BATCH, ROWS, axes_of
from laminar.parallel.split.place import Placed, place
from laminar.parallel.split.rules import Rules
from laminar.train.splitting import CARRIED, DIMENSIONS, MADE, Table

Sizes = Mapping[str, set[int]]  # by name of dimension
Names = Mapping[str, Sizes]  # by path of the innermost module that an operator comes from

INSTEAD: Final = (*MADE, *(name for name in CARRIED if name != BATCH), BATCH)  # what is proposed first


def names_of(placed: Placed) -> Names:
    """They are the same for all rules."""
    found: dict[str, dict[str, set[int]]] = {}
    for op in placed.operations:
        here = found.setdefault(op.call.path, defaultdict(set))
        for atom in (atom for value in [*op.needs, *op.gives] for dim in value for atom in dim):
            for name in (atom.name, placed.base.get(atom.origin or "", atom.name)):
                if name in DIMENSIONS:
                    here[name].add(atom.size)
    return found


def together(*several: Sizes) -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for one in several:
        for name, sizes in one.items():
            found[name] |= sizes
    return dict(found)


def more_names(one: Names, other: Names) -> Names:
    return {path: together(one.get(path, {}), other.get(path, {})) for path in dict.fromkeys([*one, *other])}


def paths_of(model: nn.Module) -> list[str]:
    """A module that has several names has operators under each."""
    return [path for path, _ in model.named_modules(remove_duplicate=False) if path]


def inside(names: Names, path: str) -> dict[str, set[int]]:
    """The dimensions of a module and all that is inside it."""
    return together(*(found for other, found in names.items() if within(other, path)))


def within(path: str, outer: str) -> bool:
    return not outer or f"{path}.".startswith(f"{outer}.")


def refuse_unknown(rules: Rules, names: Names, paths: Iterable[str], placed: Placed) -> None:
    """L012 for a rule about a module or a dimension that is not there. `paths`: of the model's modules. `placed`: to see what would do."""
    there = inside(names, "")
    for name in rules.split:
        if name not in there:
            raise LaminarError(
                "L012",
                f"strategy.split.{name}: no tensor of this model has a dimension '{name}'",
                hint=f"dimensions there are, with their sizes: {_listed(there)}",
            )
    known = set(paths)
    for path, table in rules.modules.items():
        if path not in known:
            raise LaminarError(
                "L012", f'strategy.module."{path}": the model has no such module; {did_you_mean(path, known)}', hint="laminar show --split"
            )
        has = inside(names, path)
        for name in table:
            if name not in has:
                what = f"'{path}' has no dimension '{name}'; it has {_listed(has)}" if has else f"'{path}' runs no operator, so has nothing"
                written = ", ".join(f'{one} = "{axis}"' for one, axis in _instead(rules, path, name, has, placed).items())
                raise LaminarError(
                    "L012",
                    f'strategy.module."{path}".{name}: {what}',
                    hint=f'[layer.train.strategy.module] "{path}" = {{ {written} }}' if written else f'"{path}" = {{ }} leaves it whole',
                )


def _instead(rules: Rules, path: str, wrong: str, has: Sizes, placed: Placed) -> Table:
    """A table that can be: with another dimension of the module on that axis, which is split then; else without what it has not."""
    axis = rules.modules[path][wrong]
    rest = {name: to for name, to in rules.modules[path].items() if name in has}
    for name in INSTEAD:
        if name in has and name not in rest and axis in _used(rules, path, rest | {name: axis}, placed):
            return rest | {name: axis}
    return rest if _used(rules, path, rest, placed) else {}


def _used(rules: Rules, path: str, table: Table, placed: Placed) -> set[str]:
    """The axes over which a module's tensors are split with another table; none where that cannot be."""
    try:
        found = place(placed.traced, Rules(rules.mesh, rules.split, {**rules.modules, path: table}))
    except LaminarError:
        return set()
    own = [op for op in found.operations if within(op.call.path, path)]
    return {axis for op in own for dims in [*op.needs, *op.gives] for axis in axes_of(dims)}


def _listed(found: Sizes) -> str:
    return "; ".join(f"{name}: {', '.join(map(_size, sorted(sizes)))}" for name, sizes in sorted(found.items()))


def _size(size: int) -> str:
    return "rows of a batch" if size % ROWS == 0 else str(size)
