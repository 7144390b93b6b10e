"""Place: on which axes every value of a traced model lies, and what has to be exchanged between operators.

The operators are walked twice. First nothing is split, and it is seen into which atoms later views cut each dimension, which of them must
stay whole (a softmax runs over them, say), and what they are called. Then each operator's rule (ops/) says, for the layouts that its
operands have, which it needs and which it gives. An operator without a rule needs everything whole, which is always right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from laminar.parallel.split import rules as said
from laminar.parallel.split.calls import ITEM, Call, Traced, Value, packed, unpacked
from laminar.parallel.split.dims import ROWS, Atom, Dim, Dims, Mesh, axes_of, plain, whole
from laminar.parallel.split.rules import Rules
from laminar.train.splitting import CARRIED, Table

if TYPE_CHECKING:
    from laminar.parallel.split.operator_rule import OperatorRule


@dataclass
class Decision:
    """What a rule says of an operator."""

    needs: list[Dims]  # of its tensor operands, in order
    gives: list[Dims]
    sums: tuple[str, ...] = ()  # axes along which the results are parts of a sum
    late: frozenset[int] = frozenset()  # operands that come in after the sum
    aside: frozenset[int] = frozenset()  # operands whose numbers nobody reads, only their sizes or type
    run: str = ""  # who runs it (kernels.py); "": the operator itself
    facts: dict[str, Any] = field(default_factory=dict)  # for whoever runs it
    why: str = ""


@dataclass(frozen=True)
class Operation:
    """An operator as every worker runs it."""

    call: Call
    operands: tuple[Value, ...]
    needs: tuple[Dims, ...]
    gives: tuple[Dims, ...]
    sums: tuple[str, ...]
    partial: tuple[tuple[str, ...], ...]  # for each operand: axes along which each worker has only a part of its gradient
    run: str
    facts: Mapping[str, Any]
    why: str


@dataclass(frozen=True)
class Placed:
    """A model that can be run; also from what `to_json` gave, where nothing can be traced."""

    traced: Traced
    mesh: Mesh
    operations: list[Operation]
    layouts: dict[str, Dims]  # of the model's own tensors, as they are kept
    values: dict[Value, list[Dims]]
    output: Dims  # as it leaves
    base: Mapping[str, str] = field(default_factory=dict)  # what dimensions are called as a whole, by where they begin; not sent

    def to_json(self) -> Any:
        traced, calls = self.traced, [[one.name, one.target, one.args, one.kwargs, one.path] for one in self.traced.calls]
        run = [[one.needs, one.gives, one.sums, one.partial, one.run, dict(one.facts)] for one in self.operations]
        parts = [calls, traced.inputs, traced.tensors, traced.constants, traced.output, traced.dtypes]
        return packed([parts, dict(self.mesh), run, self.layouts, self.values, self.output])

    @classmethod
    def from_json(cls, told: Any) -> Placed:
        (calls, inputs, tensors, constants, output, dtypes), mesh, run, layouts, values, leaves = unpacked(told)
        made = [Call(*one) for one in calls]
        traced = Traced(made, inputs, tensors, constants, output, {}, dtypes)
        operations = []
        for call, (needs, gives, sums, partial, runs, facts) in zip(made, run, strict=True):
            operations.append(Operation(call, call.operands, needs, gives, sums, partial, runs, facts, why=""))
        return cls(traced, mesh, operations, layouts, values, leaves)


Span = range  # of strides: the piece of a dimension from one stride up to another


@dataclass
class Seen:
    """What the first walk has found out, by dimension (the operator and place where it begins)."""

    strides: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    avoid: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    names: dict[str, list[tuple[Span, str]]] = field(default_factory=lambda: defaultdict(list))
    base: dict[str, str] = field(default_factory=dict)  # what a dimension as a whole is called

    def copy(self) -> Seen:
        """For a walk that adds to it."""
        found = Seen(base=dict(self.base))
        found.strides |= {origin: set(some) for origin, some in self.strides.items()}
        found.avoid |= {origin: list(some) for origin, some in self.avoid.items()}
        found.names |= {origin: list(some) for origin, some in self.names.items()}
        return found

    def avoided(self, atom: Atom) -> bool:
        return any(atom.stride in span for span in self.avoid.get(atom.origin or "", ()))

    def name(self, origin: str, stride: int, otherwise: str) -> str:
        return next((name for span, name in reversed(self.names.get(origin, [])) if stride in span), otherwise)


class Site:
    """An operator, as its rule sees it."""

    def __init__(self, placer: Placer, call: Call, operands: Sequence[Value]) -> None:
        self.call, self.path, self.mesh = call, call.path, placer.rules.mesh
        self.table: Table = placer.rules.at(self.path)
        self.operands = list(operands)
        self._placer = placer
        self.sizes = placer.traced.sizes[call.name]
        self.declared: Collection[str] = ()  # arguments that the rule of the operator reads
        self.have = [self.conform(placer.value(operand)) for operand in operands]

    @property
    def where(self) -> str:
        return f"'{self.path}'" if self.path else "the model"

    @property
    def op(self) -> str:
        """The operator's name in ATen."""
        return str(self.call.schema.name).split("::")[-1]

    def arg(self, *names: str, absent: Any = None) -> Any:
        """The value of an argument, or its default. Several names: what overloads call it; `absent`: where this one has none of them.

        KeyError for an argument that the operator's rule does not declare: nobody would refuse it where it is not the default."""
        for name in names:
            if name not in self.declared:
                raise KeyError(f"the rule of {self.op} reads {name}, but does not declare it")
            if name in self.call.arguments:
                return self.call.arguments[name]
        return absent

    def index(self, operand: Any) -> int:
        return self.operands.index(operand)

    @property
    def others(self) -> frozenset[int]:
        """All operands but the first."""
        return frozenset(range(1, len(self.operands)))

    def layout(self, operand: Any) -> Dims:
        return self.have[self.index(operand)]

    def conform(self, dims: Dims) -> Dims:
        """A value as the rules of this module want it: what they do not split is whole, what they carry is split."""
        kept = tuple(tuple(a if a.axis is None or self.wanted(a) == a.axis else replace(a, axis=None) for a in dim) for dim in dims)
        used = set(axes_of(kept))
        found = []
        for dim in kept:
            atoms = []
            for atom in dim:
                axis = self.table.get(atom.name) if atom.name in CARRIED and atom.axis is None else None
                if axis is not None and axis not in used and atom.size >= self.mesh[axis]:
                    used.add(axis)
                    atoms.append(replace(atom, axis=axis))
                else:
                    atoms.append(atom)
            found.append(tuple(atoms))
        return tuple(found)

    def wanted(self, atom: Atom) -> str | None:
        """The axis that this module's rules have for an atom: by its name, or by that of the dimension it is a piece of."""
        if (axis := self.table.get(atom.name)) is not None:
            return axis
        return self.table.get(self._placer.base_name(atom))

    def is_tensor(self, operand: Any) -> bool:
        """One of the model's own."""
        return operand in self._placer.traced.tensors

    def tensor_sizes(self, operand: Any) -> tuple[int, ...]:
        return self._placer.traced.sizes[operand][0]

    def kept_dim(self, operand: Any, dim: int, *, beside: Dims, within: Dims) -> Dim | None:
        """A dimension of one of the model's tensors that another operator has split already, if it will do here, too."""
        layout = self._placer.layouts.get(self._placer.traced.tensors.get(operand, ""))
        if layout is None or self._placer.first:
            return None
        axes = axes_of((layout[dim],))
        return layout[dim] if axes and not set(axes) & {*axes_of(beside), *axes_of(within)} else None

    def keep_whole(self, dim: Dim) -> Dim:
        """A dimension as an operator needs it that runs over all of it; what makes it should rather split something else."""
        for atom in dim:
            if atom.origin is not None:
                self._placer.seen.avoid[atom.origin].append(_span(atom))
        return whole((dim,))[0]

    def rename(self, dim: Dim, name: str) -> None:
        """A better name for what is in a dimension."""
        for atom in dim:
            if atom.origin is not None:
                self._placer.seen.names[atom.origin].append((_span(atom), name))

    def make(self, name: str, size: int, *, beside: Dims = (), within: Dims = (), place: int = 0) -> Dim:
        """A dimension that begins here, split where the rules say so. `beside` is split already in the tensor that it becomes a dimension
        of; `within` in one that is multiplied with it, and then its axis is taken."""
        atoms = self._placer.atoms_of(f"{self.call.name} {place}", name, size)
        used = axes_of(within)
        free = [i for i, a in enumerate(atoms) if not self._placer.seen.avoided(a)]
        for order in (free, range(len(atoms))):
            for i in order:
                axis = self.wanted(atoms[i])
                if axis is None or axis in used:
                    continue
                other = next((a for dim in beside for a in dim if a.axis == axis), None)
                if other is not None:
                    raise said.clash(self.where, axis, (other.name, other.size), (self._placer.base_name(atoms[i]), size), self.mesh)
                if atoms[i].size % self.mesh[axis] == 0:
                    return tuple(replace(a, axis=axis) if i == k else a for k, a in enumerate(atoms))
        for atom in atoms:
            axis = self.wanted(atom)
            if axis is not None and axis not in used:
                raise said.uneven(self.where, self._placer.base_name(atom), size, axis, self.mesh)
        return atoms


class Placer:
    def __init__(self, traced: Traced, rules: Rules, seen: Seen | None = None, layouts: Mapping[str, Dims] | None = None) -> None:
        self.traced, self.rules = traced, rules
        self.first = seen is None
        self.seen = seen or Seen()
        self.layouts: dict[str, Dims] = dict(layouts or {})
        self.values: dict[Value, list[Dims]] = {}
        self.operations: list[Operation] = []

    def value(self, node: Value) -> Dims:
        if node in self.values:
            (dims,) = self.values[node]
            return dims
        name = self.traced.tensors[node]
        if name in self.layouts:
            return self.layouts[name]
        sizes = self.traced.sizes[node][0]
        return plain(["-"] * len(sizes), sizes)

    def base_name(self, atom: Atom) -> str:
        return self.seen.base.get(atom.origin or "", atom.name)

    def atoms_of(self, origin: str, name: str, size: int) -> Dim:
        """A new dimension, in the pieces that later operators see in it."""
        if size == 1:
            return ()
        strides = [1]
        for stride in sorted(self.seen.strides.get(origin, ())):
            if stride % strides[-1] == 0 and size % stride == 0 and stride not in (strides[-1], size):
                strides.append(stride)
        atoms, outer = [], size
        for stride in reversed(strides):
            atoms.append(Atom(self.seen.name(origin, stride, name), outer // stride, None, origin, stride))
            outer = stride
        self.seen.base[origin] = atoms[0].name if len({atom.name for atom in atoms}) == 1 else name
        return tuple(atoms)

    def place(self) -> Placed:
        from laminar.parallel.split.ops import rule_for

        self._keep_written_whole()
        for node in self.traced.inputs:
            self.values[node] = [self._input(node)]
        for call in self.traced.calls:
            self._operator(call, rule_for(call))
        output = self.value(self.traced.output)
        if self.first:
            for dims in self.values.values():
                for atom in (a for value in dims for dim in value for a in dim):
                    if atom.origin is not None:
                        self.seen.strides[atom.origin].add(atom.stride)
            self._name_output(output)
        batch = self.rules.split.get("batch")  # the loss is that of the own rows
        leaves = tuple(tuple(replace(a, axis=batch if a.size == ROWS else None) for a in dim) for dim in output)
        return Placed(self.traced, self.rules.mesh, self.operations, self.layouts, self.values, leaves, self.seen.base)

    def _input(self, node: Value) -> Dims:
        sizes = self.traced.sizes[node][0]
        rest = {2: ["features"], 3: ["length", "features"], 4: ["channels", "height", "width"]}.get(len(sizes), ["features"] * len(sizes))
        if len(sizes) == 2 and not self.traced.dtypes[node][0].is_floating_point:
            rest = ["length"]
        names = ["batch", *rest][: len(sizes)]
        found: list[Dim] = []
        for place, (name, size) in enumerate(zip(names, sizes, strict=True)):
            atoms = self.atoms_of(f"{node} {place}", name, size)
            axis = self.rules.split.get(atoms[0].name) if len(atoms) == 1 else None
            fits = axis is not None and axis not in axes_of(tuple(found)) and atoms[0].size >= self.rules.mesh[axis]
            found.append((replace(atoms[0], axis=axis),) if fits else atoms)
        return tuple(found)

    def _keep_written_whole(self) -> None:
        """Buffers that operators write into, norms aside, whose statistics lie as their channels do: every worker writes all of them."""
        for call in self.traced.calls:
            for operand in call.written if call.target != ITEM else ():
                name = self.traced.tensors.get(operand)
                if name is not None and "batch_norm" not in call.target:
                    sizes = self.traced.sizes[operand][0]
                    self.layouts.setdefault(name, plain(["-"] * len(sizes), sizes))

    def _operator(self, call: Call, rule: OperatorRule) -> None:
        operands = call.operands
        if call.target == ITEM:
            self.values[call.name] = [self.values[operands[0]][call.args[1]]]
            self._append(call, Decision([], self.values[call.name], run="item"))
            return
        site = Site(self, call, operands)
        made = rule.decided(site)
        for operand, needs in zip(operands, made.needs, strict=True):
            name = self.traced.tensors.get(operand)
            if name is not None and name not in self.layouts:
                self.layouts[name] = needs
        self.values[call.name] = made.gives
        self._append(call, made)

    def _append(self, call: Call, made: Decision) -> None:
        read = [needs for i, needs in enumerate(made.needs) if i not in made.aside]
        active = {axis for dims in [*read, *made.gives] for axis in axes_of(dims)} | set(made.sums)
        partial = list[tuple[str, ...]]()
        for i, needs in enumerate(made.needs):
            if i in made.aside:
                partial.append(())
                continue
            parts = active - set(axes_of(needs)) - (set(made.sums) if i in made.late else set())
            partial.append(tuple(axis for axis in self.rules.mesh if axis in parts))
        layouts = tuple(made.needs), tuple(made.gives)
        self.operations.append(Operation(call, call.operands, *layouts, made.sums, tuple(partial), made.run, made.facts, made.why))

    def _name_output(self, output: Dims) -> None:
        for dim in output[1:]:
            for atom in dim:
                if atom.origin is not None and atom.name == "hidden":
                    self.seen.names[atom.origin].append((_span(atom), "classes"))


def _span(atom: Atom) -> Span:
    return range(atom.stride, atom.stride * atom.size)


def look_at(traced: Traced) -> Seen:
    """The first walk, which is the same for all rules."""
    first = Placer(traced, Rules({}))
    first.place()
    return first.seen


def place(traced: Traced, rules: Rules, layouts: Mapping[str, Dims] | None = None, seen: Seen | None = None) -> Placed:
    """`layouts`: those that the model's tensors have already. `seen`: of the first walk, where that was made before."""
    return Placer(traced, rules, (seen or look_at(traced)).copy(), layouts).place()
