"""Run a graph as a model: a tree of modules that do what the author's modules did, without the author's code.

Every module holds what it does in training and in evaluation and chooses by its own `training` flag, as any nn.Module does. So
train(), eval(), freezing by path and replacing by path work as with the original, module by module.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.model.graph_ir import Attr, Body, Enter, Ref, Step
from laminar.model.graph_ops import check_of, ready_to_call

Get = Callable[[list[Any], "GraphModule"], Any]


class Home:
    """What the modules of one model share: the model itself, and tensors that are neither parameters nor buffers."""

    def __init__(self, constants: dict[str, Tensor]) -> None:
        self.root: GraphModule | None = None
        self.constants = constants


class _Beside(threading.local):
    """What a caller hands to the module it is about to call beside its arguments, and gets back beside its result."""

    given: tuple[GraphModule, int, bool, list[Any]] | None = None
    returned: list[Any] | None = None


_beside = _Beside()


class GraphModule(nn.Module):
    """One module of a loaded graph. `kind` is the class it had; `path` its place in the model it was exported from."""

    def __init__(self, path: str, kind: str, home: Home) -> None:
        super().__init__()
        self.graph_path = path
        self.graph_kind = kind
        self.graph_facts: dict[str, Any] = {}
        self._home = home
        self._programs: dict[bool, list[_Program]] = {True: [], False: []}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(args, kwargs)

    def set_facts(self, facts: dict[str, Any]) -> None:
        """Settings such as `in_features`, readable as on the original module."""
        self.graph_facts = facts
        for name, value in facts.items():
            if name.isidentifier() and not name.startswith("_") and not hasattr(self, name):
                setattr(self, name, value)

    def __getitem__(self, index: int) -> nn.Module:
        """`old[1].in_features`, as on the Sequential that it was."""
        if self.graph_kind not in ("Sequential", "ModuleList"):
            raise TypeError(f"a {self.graph_kind} has no places by number")
        return list(self.children())[index]

    def set_bodies(self, training: bool, bodies: list[Body]) -> None:
        self._programs[training] = [_Program(body, self.graph_path) for body in bodies]

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given, _beside.given = _beside.given, None
        number, more = 0, []
        if given is not None and given[0] is self:
            number, more = given[1], given[3]
            if more and given[2] != self.training:
                raise self.inseparable()
        programs = self._programs[self.training]
        if not programs:
            raise LaminarError(
                "L203",
                f"the module '{self.graph_path}' was not called when the model was exported "
                f"in {'training' if self.training else 'evaluation'}, so what it does then is not known",
                hint="leave it out of freeze, or build the layer where its source code is",
            )
        program = programs[number if number < len(programs) else 0]
        if len(more) != len(program.more_in):
            raise self.inseparable()
        return program.run(self, args, kwargs, more)

    def inseparable(self) -> LaminarError:
        return LaminarError(
            "L203",
            f"the module '{self.graph_path}' exchanges values with the rest of the model beside its arguments, "
            "so that it cannot be frozen, replaced or called on its own without its source code",
            hint="name the module around it, or build the layer where its source code is",
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        if self._home.root is self:
            for name, tensor in self._home.constants.items():
                self._home.constants[name] = fn(tensor)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call, no-any-return]

    def _get_name(self) -> str:
        return self.graph_kind


class GraphModel(GraphModule):
    """The model itself. Its one argument has a name, so that it can be exported again."""

    def forward(self, x: Tensor) -> Any:
        return self._call((x,), {})


class _Program:
    """A body, made ready to run: operators looked up, every argument a constant or a function of the slots."""

    def __init__(self, body: Body, path: str) -> None:
        self.body = body
        self.more_in = body.more_in
        self.path = path
        self.plain = (
            len(body.in_spec.parts) == 2 and not body.in_spec.parts[1].parts and all(p.kind == "leaf" for p in body.in_spec.parts[0].parts)
        )
        self.steps = [self._operator(step) if isinstance(step, Step) else self._enter(step) for step in body.steps]
        self.outputs = [_getter(value, path) for value in body.outputs]
        self.writes = [(_owner_of(name, path), name.rpartition(".")[2], _getter(value, path)) for name, value in body.writes]
        self.free = _last_uses(body)

    def run(self, module: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any], more: list[Any]) -> Any:
        slots: list[Any] = [None] * self.body.slots
        leaves = list(args) if self.plain and not kwargs else self._leaves(module, args, kwargs)
        if len(leaves) != len(self.body.inputs):
            raise TypeError(f"module '{self.path}' takes {len(self.body.inputs)} values, got {len(leaves)}")
        for slot, leaf in zip(self.body.inputs, leaves, strict=True):
            if slot is not None:
                slots[slot] = leaf
        for slot, value in zip(self.body.more_in, more, strict=True):
            slots[slot] = value
        del leaves, args, kwargs, more
        for step, free in zip(self.steps, self.free, strict=True):
            step(slots, module)
            for slot in free:
                slots[slot] = None
        made = [get(slots, module) for get in self.outputs]
        for owner, name, get in self.writes:
            owner(module)._buffers[name] = get(slots, module).detach()
        if self.body.more_out:
            _beside.returned = [slots[slot] for slot in self.body.more_out]
        return made[0] if self.body.out_spec.kind == "leaf" else self.body.out_spec.build(made)

    def _leaves(self, module: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        try:
            return self.body.in_spec.flatten((args, kwargs))
        except ValueError as error:
            raise TypeError(f"module '{module.graph_path}' was exported with other arguments: {error}") from None

    def _operator(self, step: Step) -> Callable[[list[Any], GraphModule], None]:
        function, check = ready_to_call(step.target), check_of(step.target, step.args, dict(step.kwargs))
        fixed = [_at_rest(value) for value in step.args]
        moving = [(i, _getter(value, self.path)) for i, value in enumerate(step.args) if _moves(value)]
        fixed_named = {name: _at_rest(value) for name, value in step.kwargs}
        moving_named = [(name, _getter(value, self.path)) for name, value in step.kwargs if _moves(value)]
        outs, grad = step.outs, step.grad
        single = outs[0] if len(outs) == 1 and not step.listed else None

        def run(slots: list[Any], module: GraphModule) -> None:
            args, named = fixed.copy(), fixed_named
            for i, get in moving:
                args[i] = get(slots, module)
            if moving_named:
                named = {**fixed_named, **{name: get(slots, module) for name, get in moving_named}}
            if check is not None:
                check(args, named)
            if grad is None:
                result = function(*args, **named)
            else:
                with torch.set_grad_enabled(grad):
                    result = function(*args, **named)
            if single is not None:
                slots[single] = result
            elif len(outs) > 1 or step.listed:
                for slot, value in zip(outs, result, strict=False):
                    if slot is not None:
                        slots[slot] = value

        return run

    def _enter(self, step: Enter) -> Callable[[list[Any], GraphModule], None]:
        find = _module_finder(step.call.path, self.path)
        gets = [_getter(value, self.path) for value in step.signature.inputs]
        more_gets = [_getter(value, self.path) for value in step.more_in]
        in_spec, out_spec = step.signature.in_spec, step.signature.out_spec
        plain = len(in_spec.parts) == 2 and not in_spec.parts[1].parts and all(p.kind == "leaf" for p in in_spec.parts[0].parts)
        beside = bool(step.call.number or step.more_in or step.more_out)

        def call(child: nn.Module, leaves: list[Any]) -> Any:
            if plain:
                return child(*leaves)
            args, kwargs = in_spec.build(leaves)
            return child(*args, **kwargs)

        def run(slots: list[Any], module: GraphModule) -> None:
            child = find(module)
            leaves = [get(slots, module) for get in gets]
            if beside:
                _beside.returned = None
                if isinstance(child, GraphModule):
                    _beside.given = (child, step.call.number, module.training, [get(slots, module) for get in more_gets])
            if step.grad is None:
                result = call(child, leaves)
            else:
                with torch.set_grad_enabled(step.grad):
                    result = call(child, leaves)
            if step.more_out:
                returned, _beside.returned = _beside.returned, None
                if returned is None or len(returned) != len(step.more_out):
                    raise child.inseparable() if isinstance(child, GraphModule) else _needed(step.call.path)
                for slot, value in zip(step.more_out, returned, strict=True):
                    slots[slot] = value
            made = [result] if out_spec.kind == "leaf" else out_spec.flatten(result)
            for out, value in zip(step.outs, made, strict=True):
                if out is not None:
                    slots[out] = value

        return run


def _needed(path: str) -> LaminarError:
    return LaminarError(
        "L203",
        f"the module '{path}' was replaced, but the rest of the model uses values from inside the old one",
        hint="replace the module around it, or build the layer where its source code is",
    )


def _getter(value: Any, path: str) -> Get:
    """How to get an argument when the body runs."""
    if isinstance(value, Ref):
        slot = int(value.name)
        return lambda slots, _: slots[slot]
    if isinstance(value, Attr):
        return _tensor_getter(value, path)
    if isinstance(value, tuple):
        parts = [_getter(item, path) for item in value]
        return lambda slots, module: [get(slots, module) for get in parts]
    return lambda slots, module: value  # noqa: ARG005


def _moves(value: Any) -> bool:
    """Does the argument depend on the run?"""
    return isinstance(value, Ref | Attr) or (isinstance(value, tuple) and any(map(_moves, value)))


def _at_rest(value: Any) -> Any:
    """An argument that does not, as operators want it."""
    return [_at_rest(item) for item in value] if isinstance(value, tuple) else value


def _tensor_getter(attr: Attr, path: str) -> Get:
    name = attr.name
    if attr.kind == "constant":
        return lambda _, module: module._home.constants[name]
    owner, leaf = _owner_of(name, path), name.rpartition(".")[2]

    def get(_: list[Any], module: GraphModule) -> Any:
        found = owner(module)
        tensor: Tensor | None = found._parameters.get(leaf)
        if tensor is None:
            tensor = found._buffers.get(leaf)
        return getattr(found, leaf) if tensor is None else tensor

    return get


def _owner_of(name: str, path: str) -> Callable[[GraphModule], nn.Module]:
    return _module_finder(name.rpartition(".")[0], path)


def _module_finder(wanted: str, path: str) -> Callable[[GraphModule], nn.Module]:
    """How the module at `path` reaches the one at `wanted`: downwards from itself where it can, else from the model."""
    if wanted == path:
        return lambda module: module
    below = wanted.startswith(path + ".") or not path
    names = (wanted[len(path) + 1 :] if path and below else wanted).split(".") if wanted else []

    def find(module: GraphModule) -> nn.Module:
        found: nn.Module | None = module if below else module._home.root
        for name in names:
            found = found._modules.get(name) if found is not None else None
        if found is None:
            raise LaminarError(
                "L203",
                f"the model's graph needs the module '{wanted}', which is gone",
                hint="put a module at that path, or build from source",
            )
        return found

    return find


def _last_uses(body: Body) -> list[list[int]]:
    """After each step, the slots that nobody reads again: their memory is given back."""
    last: dict[int, int] = {}
    for i, step in enumerate(body.steps):
        reads = (*step.args, *(v for _, v in step.kwargs)) if isinstance(step, Step) else (*step.signature.inputs, *step.more_in)
        for slot in (*_slots(reads), *(s for s in step.outs if s is not None)):
            last[slot] = i
    kept = {*_slots(body.outputs), *body.more_out, *_slots(tuple(v for _, v in body.writes))}
    free: list[list[int]] = [[] for _ in body.steps]
    for slot, i in last.items():
        if slot not in kept:
            free[i].append(slot)
    return free


def _slots(values: tuple[Any, ...]) -> list[int]:
    found: list[int] = []
    for value in values:
        if isinstance(value, Ref):
            found.append(int(value.name))
        elif isinstance(value, tuple):
            found.extend(_slots(value))
    return found
