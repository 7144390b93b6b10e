"""Trace: a module as a list of operators, with sizes as numbers and every operator without side effects but for buffers.

torch.export gives operators with symbols for the batch; here ROWS (dims.py) stands for its rows, so that all sizes are plain integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.export.graph_signature import InputKind, OutputKind

from laminar.core.errors import LaminarError
from laminar.model.graph_export import BATCH, as_its_author_made_it, quiet, reason
from laminar.parallel.split.calls import ITEM, ROWS_ARITHMETIC, Call, RowsNumber, Traced, Value, mapped
from laminar.parallel.split.dims import ROWS

aten = torch.ops.aten
MOST: Final = 1 << 30  # rows that a batch may have
_NUMBERS: Final[dict[Any, str]] = {function: name for name, function in ROWS_ARITHMETIC.items()}


def trace(
    module: nn.Module, examples: Sequence[Tensor], names: Callable[[Tensor], str], *, training: bool, frozen: Iterable[nn.Module] = ()
) -> Traced:
    """`names`: the model's name for one of its tensors. `frozen` modules run as in evaluation. L209 for a module that cannot be traced."""
    rows = [torch.arange(BATCH) % len(example) for example in examples]
    try:
        with as_its_author_made_it(module), quiet():
            module.train(training)
            for one in frozen:
                one.eval()
            program = torch.export.export(
                module,
                tuple(example.detach()[some] for example, some in zip(examples, rows, strict=True)),
                dynamic_shapes=_same_rows(examples),
                strict=False,
            )
    except Exception as error:  # torch.export fails in too many ways to list
        raise LaminarError(
            "L209",
            f"the model cannot be split over workers, since its operators cannot be traced: {reason(error)}",
            hint='strategy = "sync" splits by data and needs no trace',
        ) from error
    return _Reader(module, program, names).read()


def _same_rows(examples: Sequence[Tensor]) -> Any:
    rows = torch.export.Dim("rows", min=2, max=MOST) if len(examples) > 1 else torch.export.Dim.DYNAMIC
    return tuple({0: rows} for _ in examples)


class _Reader:
    def __init__(self, module: nn.Module, program: torch.export.ExportedProgram, names: Callable[[Tensor], str]) -> None:
        self._module, self._program, self._names = module, program, names
        self._graph = program.graph
        self._symbol: Any = None

    def read(self) -> Traced:
        inputs, tensors, constants = self._placeholders()
        output = self._output()
        self._make_functional(set(tensors))
        sizes: dict[fx.Node, list[tuple[int, ...]]] = {}
        dtypes: dict[fx.Node, list[torch.dtype]] = {}
        for node in list(self._graph.nodes):
            value = node.meta.get("val")
            values = list(value) if isinstance(value, list | tuple) else [value]
            if all(isinstance(one, Tensor) for one in values) and values:
                sizes[node] = [tuple(self._number(size) for size in one.shape) for one in values]
                dtypes[node] = [one.dtype for one in values]
            node.args = fx.node.map_aggregate(node.args, self._plain)
            node.kwargs = cast(dict[str, Any], fx.node.map_aggregate(node.kwargs, self._plain))
        calls = [self._call(node) for node in self._graph.nodes if node.op == "call_function" and node in sizes]
        self._refuse_unknown(calls, {*inputs, *tensors, *sizes}, output)
        return Traced(
            calls,
            [Value(node.name) for node in inputs],
            {Value(node.name): name for node, name in tensors.items()},
            constants,
            Value(output.name),
            {Value(node.name): found for node, found in sizes.items()},
            {Value(node.name): found for node, found in dtypes.items()},
        )

    @staticmethod
    def _call(node: fx.Node) -> Call:
        def plain(value: Any) -> Any:
            return Value(value.name) if isinstance(value, fx.Node) else value

        args, kwargs = mapped(_lists(node.args), plain), mapped(_lists(dict(node.kwargs)), plain)
        if node.target is operator.getitem:
            return Call(Value(node.name), ITEM, tuple(args), kwargs, path_of(node))
        if isinstance(node.target, OpOverload):
            args, kwargs = _by_place(node.target, args, kwargs)
        return Call(Value(node.name), f"torch.ops.{node.target}", tuple(args), kwargs, path_of(node))

    def _refuse_unknown(self, calls: Sequence[Call], known: set[fx.Node], output: fx.Node) -> None:
        """What operators take must be tensors that were made by operators, or the model's own."""
        names = {node.name for node in known}
        for call in calls:
            where = f"'{call.path}'" if call.path else "the model"
            if call.target.endswith("wrap_with_set_grad_enabled"):
                raise _cannot(f"{where} computes under torch.no_grad(); call .detach() on the result instead")
            try:
                call.function  # noqa: B018
            except LaminarError as error:
                raise _cannot(f"{where} calls {call.target.removeprefix('torch.ops.')}, which workers do not run") from error
            for operand in call.operands:
                if operand not in names:
                    raise _cannot(f"{where} has an operator with arguments other than tensors and numbers ({call.target})")
        if output not in known:
            raise _cannot("its output is no tensor that an operator made")

    def _placeholders(self) -> tuple[list[fx.Node], dict[fx.Node, str], dict[str, Tensor]]:
        inputs: list[fx.Node] = []
        tensors: dict[fx.Node, str] = {}
        constants: dict[str, Tensor] = {}
        found = {node.name: node for node in self._graph.nodes if node.op == "placeholder"}
        for spec in self._program.graph_signature.input_specs:
            node, target = found[spec.arg.name], spec.target or ""
            if spec.kind is InputKind.USER_INPUT:
                inputs.append(node)
            elif spec.kind is InputKind.PARAMETER:
                tensors[node] = self._names(self._module.get_parameter(target))
            elif spec.kind is InputKind.BUFFER:
                tensors[node] = self._names(self._module.get_buffer(target))
            elif spec.kind is InputKind.CONSTANT_TENSOR:
                tensors[node] = name = f"constant {target}"
                constants[name] = cast(Tensor, self._program.constants[target])
            else:
                raise _cannot(f"it takes something else than tensors ({spec.kind.name})")
        size = inputs[0].meta["val"].shape[0]
        if not isinstance(size, torch.SymInt):
            raise _cannot(f"it works with a batch of {size} only")
        self._symbol = size.node.expr
        allowed = self._program.range_constraints.get(self._symbol)
        if allowed is not None and (allowed.lower > 2 or allowed.upper < MOST):
            most = f"{allowed.lower} to {allowed.upper}" if allowed.upper < MOST else f"{allowed.lower} and more"
            raise _cannot(f"its operators depend on the number of rows in a batch: they are valid for {most} rows only")
        return inputs, tensors, constants

    def _output(self) -> fx.Node:
        specs = self._program.graph_signature.output_specs
        if len(specs) != 1 or specs[0].kind is not OutputKind.USER_OUTPUT:
            raise _cannot("it gives more than one tensor, or replaces its buffers instead of writing into them")
        output = next(node for node in self._graph.nodes if node.op == "output")
        return cast(fx.Node, output.args[0][0])

    def _make_functional(self, tensors: set[fx.Node]) -> None:
        """Operators that change their argument in place give a new value instead, which is used from there on."""
        order = {node: i for i, node in enumerate(self._graph.nodes)}
        written: dict[fx.Node, fx.Node] = {}  # what writing into a buffer gives is that buffer
        for node in list(self._graph.nodes):
            if not isinstance(node.target, OpOverload) or not node.target._schema.is_mutable:
                continue
            first = node.args[0] if node.args else None
            if isinstance(first, fx.Node) and first in written:
                first = written[first]
                node.update_arg(0, first)
            if not isinstance(first, fx.Node):
                continue
            if first in tensors:
                written[node] = first
                continue
            other = getattr(aten, node.target._schema.name.split("::")[1].removesuffix("_"), None)
            functional = getattr(other, node.target._overloadname, None) if other is not None else None
            if functional is None or first.op == "placeholder" or _is_view(first):
                raise _cannot(f"{_place(node)} writes into a view of a tensor ({node.target})")
            node.target = functional
            for later in [user for user in first.users if order[user] > order[node]]:
                later.replace_input_with(first, node)

    def _plain(self, value: Any) -> Any:
        if not isinstance(value, fx.Node):
            return value
        number = value.meta.get("val")
        if isinstance(number, bool | int | float):
            return number
        return self._rows_number(value) if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) else value

    def _rows_number(self, node: fx.Node) -> Any:
        """A number that follows from the rows of a batch: an integer where it is a multiple of them."""
        value = node.meta["val"]
        if isinstance(value, torch.SymInt):
            number = value.node.expr.subs(self._symbol, ROWS)
            if number.is_Integer and int(number) % ROWS == 0:
                return int(number)
        if (target := _NUMBERS.get(node.target)) is None:
            raise _cannot(f"{_place(node)} computes a number by {node.target}")
        return RowsNumber(target, tuple(fx.node.map_aggregate(node.args, self._plain)))

    def _number(self, size: Any) -> int:
        if not isinstance(size, torch.SymInt):
            return int(size)
        number = size.node.expr.subs(self._symbol, ROWS)
        if not number.is_Integer or (size.node.expr.has(self._symbol) and int(number) % ROWS):
            raise _cannot(f"one of its sizes is {size.node.expr}, which does not follow from the rows of a batch alone")
        return int(number)


def _by_place(operator: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments in the order of the schema, however the model's author gave them; by name only those that can be given so alone."""
    schema = [argument for argument in operator._schema.arguments if not argument.kwarg_only]
    found, rest = list(args), dict(kwargs)
    last = max((i for i, argument in enumerate(schema) if argument.name in rest), default=-1)
    for argument in schema[len(found) : last + 1]:
        found.append(rest.pop(argument.name) if argument.name in rest else argument.default_value)
    return found, rest


def _lists(value: Any) -> Any:
    """fx has its own kinds of lists."""
    if isinstance(value, tuple):
        return tuple(_lists(one) for one in value)
    if isinstance(value, list):
        return [_lists(one) for one in value]
    return {key: _lists(one) for key, one in value.items()} if isinstance(value, dict) else value


def _is_view(node: fx.Node) -> bool:
    """Does it look into the memory of another value?"""
    return isinstance(node.target, OpOverload) and any(
        r.alias_info is not None and not r.alias_info.is_write for r in node.target._schema.returns
    )


def path_of(node: fx.Node) -> str:
    """The innermost module that an operator comes from."""
    paths = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values() if not path.startswith("_empty")]
    return paths[-1] if paths else ""


def _place(node: fx.Node) -> str:
    return f"'{path}'" if (path := path_of(node)) else "the model"


def _cannot(why: str) -> LaminarError:
    return LaminarError(
        "L209", f"the model cannot be split over workers: {why}", hint='strategy = "sync" splits by data and takes any model'
    )
