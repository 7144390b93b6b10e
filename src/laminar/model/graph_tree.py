"""From a flat list of operators to what each module does: the hierarchy of calls that freeze and replace need.

Tracing notes for every operator the module calls it happened in, and for every call its arguments and results. Operators of one call
stand together, so a call becomes one step (Enter) of its caller and a Body of its own, recursively. Sizes need care: tracing computes
a size once, wherever it likes, and uses it everywhere; a body must be able to run on its own arguments, so it reads sizes from tensors that
it has itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from laminar.model.graph_ir import LEAF, Body, Call, Enter, Flat, Node, Ref, Signature, Spec, Step, Tree
from laminar.model.graph_members import refuse
from laminar.model.graph_ops import NUMBERS, SIZES

SIZE_OF = "torch.ops.aten.sym_size.int"


def build_tree(flat: Flat) -> Tree:
    return _Builder(flat).tree()


def collapse(*trees: Tree) -> None:
    """Where all calls of a module do the same in every form, keep one body, and let every caller say call number 0."""
    paths = sorted({path for tree in trees for path in tree.bodies})
    changed = True
    while changed:
        changed = False
        for path in paths:
            if any(len(tree.bodies.get(path, ())) > 1 for tree in trees) and all(_all_equal(tree.bodies.get(path, [])) for tree in trees):
                changed = True
                for tree in trees:
                    if path in tree.bodies:
                        tree.bodies[path] = tree.bodies[path][:1]
                    for other, bodies in tree.bodies.items():
                        tree.bodies[other] = [_renumber(body, path) for body in bodies]


def _all_equal(bodies: list[Body]) -> bool:
    return all(body == bodies[0] for body in bodies)


def _renumber(body: Body, path: str) -> Body:
    steps = tuple(replace(s, call=Call(path)) if isinstance(s, Enter) and s.call.path == path else s for s in body.steps)
    return replace(body, steps=steps) if steps != body.steps else body


@dataclass
class _Scope:
    """A body while it is being written."""

    slots: dict[str, int] = field(default_factory=dict)
    visible: list[str] = field(default_factory=list)  # tensors, oldest first
    steps: list[Step | Enter] = field(default_factory=list)
    more_in: list[str] = field(default_factory=list)
    grad: bool | None = None  # how gradients are switched around the whole body
    count: int = 0

    def slot(self, name: str) -> int:
        self.slots[name] = self.count
        self.count += 1
        self.visible.append(name)
        return self.slots[name]


class _Builder:
    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.numbers = {
            node.outs[0]: node
            for node in flat.nodes
            if (node.target in NUMBERS or node.target in SIZES) and len(node.outs) == 1 and node.outs[0] is not None
        }
        self.nodes = [n for n in flat.nodes if not (n.outs and n.outs[0] in self.numbers) and not _copies_onto_itself(n, flat)]
        self.defined = {name: i for i, node in enumerate(self.nodes) for name in node.outs if name is not None}
        self.ranges: dict[Call, tuple[int, int]] = {}
        for i, node in enumerate(self.nodes):
            for call in node.calls:
                self.ranges[call] = (self.ranges.get(call, (i, i))[0], i + 1)
        known = {*self.defined, *self.numbers, *flat.tensors, *(r.name for r in _refs(flat.signature.inputs))}
        self.calls = {call: _only_known(signature, known) for call, signature in flat.calls.items()}
        self.uses: dict[str, list[int]] = {}
        for i, node in enumerate(self.nodes):
            self._count((node.args, [v for _, v in node.kwargs]), i)
        for call, signature in self.calls.items():
            if call in self.ranges:
                self._count(signature.inputs, self.ranges[call][0])
        self.size_names = self._size_names()
        self.bodies: dict[str, dict[int, Body]] = {}

    def tree(self) -> Tree:
        wanted = {str(r.name) for r in _refs(self.flat.signature.outputs)}
        body, missing = self._body(None, self.flat.signature, 0, len(self.nodes), 0, wanted, None)
        if missing:
            raise refuse(f"the value '{missing[0]}' comes from nowhere")
        bodies = {path: [found[n] for n in sorted(found)] for path, found in self.bodies.items()}
        for path, found in self.bodies.items():
            if sorted(found) != list(range(len(found))):
                raise refuse(f"the calls of '{path}' are not numbered through")
        return Tree({"": [body], **bodies}, self.flat)

    def _count(self, values: Any, at: int) -> None:
        for ref in _refs(values):
            self.uses.setdefault(str(ref.name), []).append(at)

    def _size_names(self) -> dict[str, str]:
        """Name of a number -> text of its symbolic value, where it is the size of some tensor."""
        found: dict[str, str] = {}
        for name, node in self.numbers.items():
            if node.target == SIZE_OF and isinstance(node.args[0], Ref) and isinstance(node.args[1], int) and name is not None:
                sizes = self.flat.dims.get(str(node.args[0].name), ())
                if -len(sizes) <= node.args[1] < len(sizes) and isinstance(sizes[node.args[1]], str):
                    found[name] = str(sizes[node.args[1]])
        return found

    def _body(
        self, call: Call | None, signature: Signature | None, a: int, b: int, depth: int, wanted: set[str], grad: bool | None
    ) -> tuple[Body, list[str]]:
        scope = _Scope(grad=grad)
        inputs: list[int | None] = []
        for value in signature.inputs if signature else ():
            fresh = isinstance(value, Ref) and value.name not in self.flat.tensors and value.name not in scope.slots
            inputs.append(scope.slot(str(value.name)) if fresh else None)
        own_wanted = wanted | {str(r.name) for r in _refs(signature.outputs if signature else ())}
        i = a
        while i < b:
            node = self.nodes[i]
            if len(node.calls) <= depth:
                self._step(scope, i)
                i += 1
                continue
            inner = node.calls[depth]
            j = i
            while j < b and len(self.nodes[j].calls) > depth and self.nodes[j].calls[depth] == inner:
                j += 1
            if self.ranges[inner] != (i, j) or inner.number in self.bodies.get(inner.path, {}):
                raise refuse(f"the operators of module '{inner.path}' are mixed with those of others")
            self._enter(scope, inner, i, j, depth, own_wanted)
            i = j
        outputs, out_spec = self._outputs(signature, scope, a, b, wanted)
        writes = tuple(
            (buffer, self._value(scope, Ref(value)))
            for buffer, value in sorted(self.flat.mutated.items())
            if self._home(value) == (call, depth)
        )
        more_out = self._escaping(a, b, wanted, signature) if call is not None and signature is not None else []
        if signature is None:
            scope.more_in.sort(key=lambda name: self.defined.get(name, -1))
            body = Body(
                _flat_spec(len(scope.more_in)),
                tuple(scope.slots[n] for n in scope.more_in),
                (),
                tuple(scope.steps),
                outputs,
                out_spec,
                (),
                writes,
                scope.count,
            )
            return body, scope.more_in
        body = Body(
            signature.in_spec,
            tuple(inputs),
            tuple(scope.slots[name] for name in scope.more_in),
            tuple(scope.steps),
            outputs,
            out_spec,
            tuple(scope.slots[name] for name in more_out),
            writes,
            scope.count,
        )
        return body, scope.more_in

    def _outputs(self, signature: Signature | None, scope: _Scope, a: int, b: int, wanted: set[str]) -> tuple[tuple[Any, ...], Spec]:
        if signature is not None:
            return tuple(self._value(scope, value) for value in signature.outputs), signature.out_spec
        names = self._escaping(a, b, wanted, None)
        return tuple(Ref(scope.slots[name]) for name in names), LEAF if len(names) == 1 else Spec("tuple", (), (LEAF,) * len(names))

    def _escaping(self, a: int, b: int, wanted: set[str], signature: Signature | None) -> list[str]:
        """Values made between a and b that are used elsewhere and are no declared results, in order."""
        declared = {str(r.name) for r in _refs(signature.outputs)} if signature else set()
        found = []
        for node in self.nodes[a:b]:
            for name in node.outs:
                if (
                    name is not None
                    and name not in declared
                    and (name in wanted or any(not a <= use < b for use in self.uses.get(name, ())))
                ):
                    found.append(name)
        return found

    def _enter(self, scope: _Scope, call: Call, a: int, b: int, depth: int, wanted: set[str]) -> None:
        signature = self.calls.get(call)
        grads = {node.grad for node in self.nodes[a:b]}
        inside = grads.pop() if len(grads) == 1 else scope.grad
        grad = inside if inside != scope.grad else None
        body, missing = self._body(call, signature, a, b, depth + 1, wanted, inside)
        self.bodies.setdefault(call.path, {})[call.number] = body
        if signature is None:
            names = self._escaping(a, b, wanted, None)
            given = tuple(self._value(scope, Ref(name)) for name in missing)
            outs = tuple(scope.slot(name) for name in names)
            scope.steps.append(Enter(call, Signature(given, body.in_spec, (), body.out_spec), outs, grad=grad))
            return
        given = tuple(self._value(scope, value) for value in signature.inputs)
        more_in = tuple(self._value(scope, Ref(name)) for name in missing)
        outs_declared: list[int | None] = []
        for value in signature.outputs:
            new = isinstance(value, Ref) and a <= self.defined.get(str(value.name), -1) < b and value.name not in scope.slots
            outs_declared.append(scope.slot(str(value.name)) if new else None)
        more_out = tuple(scope.slot(name) for name in self._escaping(a, b, wanted, signature))
        scope.steps.append(
            Enter(call, Signature(given, signature.in_spec, (), signature.out_spec), tuple(outs_declared), more_in, more_out, grad)
        )

    def _step(self, scope: _Scope, i: int) -> None:
        node = self.nodes[i]
        args = tuple(self._value(scope, value) for value in node.args)
        kwargs = tuple((name, self._value(scope, value)) for name, value in node.kwargs)
        outs = tuple(None if name is None else scope.slot(name) for name in node.outs)
        scope.steps.append(Step(node.target, args, kwargs, outs, node.listed, None if node.grad == scope.grad else node.grad))

    def _value(self, scope: _Scope, value: Any) -> Any:
        """An argument with its names turned into slots, tensors of the model into Attr; sizes are made where they are missing."""
        if isinstance(value, tuple):
            return tuple(self._value(scope, item) for item in value)
        if not isinstance(value, Ref):
            return value
        name = str(value.name)
        if name in self.flat.tensors:
            return self.flat.tensors[name]
        if name in scope.slots:
            return Ref(scope.slots[name])
        if name in self.numbers:
            found = self._number(scope, name)
            if found is not None:
                return found
        scope.more_in.append(name)
        return Ref(scope.slot(name))

    def _number(self, scope: _Scope, name: str) -> Any:
        """A size that this body can find out itself: from a tensor it has, or by arithmetic on such. None if it cannot."""
        if name in scope.slots:
            return Ref(scope.slots[name])
        node = self.numbers[name]
        wanted = self.size_names.get(name)
        if wanted is not None:
            for tensor in scope.visible:
                sizes = self.flat.dims.get(tensor, ())
                if wanted in sizes:
                    scope.steps.append(Step(SIZE_OF, (Ref(scope.slots[tensor]), sizes.index(wanted)), (), (scope.slot(name),), False))
                    return Ref(scope.slots[name])
        args: list[Any] = []
        for arg in node.args:
            made = arg
            if isinstance(arg, Ref):
                inner = str(arg.name)
                if inner in self.flat.tensors:
                    made = self.flat.tensors[inner]
                elif inner in scope.slots:
                    made = Ref(scope.slots[inner])
                else:
                    made = self._number(scope, inner) if inner in self.numbers else None
                if made is None:
                    return None
            args.append(made)
        scope.steps.append(Step(node.target, tuple(args), (), (scope.slot(name),), False))
        return Ref(scope.slots[name])

    def _home(self, value: str) -> tuple[Call | None, int]:
        """The innermost call in which a value is made."""
        at = self.defined.get(value)
        stack = self.nodes[at].calls if at is not None else ()
        return (stack[-1] if stack else None, len(stack))


def _copies_onto_itself(node: Node, flat: Flat) -> bool:
    """`self.count += 1` is traced as an addition in place and a copy of the result onto the buffer, which it is already."""
    if node.target != "torch.ops.aten.copy_.default" or len(node.args) < 2 or not all(isinstance(arg, Ref) for arg in node.args[:2]):
        return False
    makers = {name: maker for maker in flat.nodes for name in maker.outs}
    target, source = node.args[0].name, node.args[1].name
    while source != target and source in makers:
        maker = makers[source]
        if not maker.target.rpartition(".")[0].endswith("_") or not maker.args or not isinstance(maker.args[0], Ref):
            return False
        source = maker.args[0].name
    return bool(source == target)


def _only_known(signature: Signature, known: set[Any]) -> Signature:
    """Arguments and results that nobody used were dropped from the graph: they are None."""
    inputs = tuple(None if isinstance(v, Ref) and v.name not in known else v for v in signature.inputs)
    outputs = tuple(None if isinstance(v, Ref) and v.name not in known else v for v in signature.outputs)
    return Signature(inputs, signature.in_spec, outputs, signature.out_spec)


def _flat_spec(count: int) -> Spec:
    return Spec("tuple", (), (Spec("tuple", (), (LEAF,) * count), Spec("dict")))


def _refs(values: Any) -> list[Ref]:
    if isinstance(values, Ref):
        return [values]
    if isinstance(values, list | tuple):
        return [ref for item in values for ref in _refs(item)]
    return []
