"""From a model to the archives of its two forms: traced by torch.export with any batch size, written without weights."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.interrupts import afterwards
from laminar.model.author_errors import last_line, raised_at
from laminar.model.freeze import Frozen
from laminar.model.graph_file import Archive, ModuleFact
from laminar.model.graph_module import GraphModule
from laminar.model.modes import keeping_modes
from laminar.model.weights import state, to_raw

if TYPE_CHECKING:
    from torch.export import ExportedProgram

# torch's exporter takes two seconds to be imported, so it is when something is exported: workers and predictions never need it.

BATCH: Final = 3  # of the traced example: neither 0 nor 1, which tracing takes for constants


BATCHES: Final = (*range(2, 66), 100, 127, 128, 255, 256, 257, 999, 1024, 4096)  # sizes for which a graph must hold


def traced(model: nn.Module, example: Tensor, *, training: bool, signatures: bool = True) -> ExportedProgram:
    """torch.export of the model in one form. `signatures` keeps every module's arguments, which freeze and replace need."""
    rows = torch.arange(BATCH) % len(example)
    paths = tuple(name for name, _ in model.named_modules() if name) if signatures else ()
    with as_its_author_made_it(model), _visible_identities(model), _recorded_assignments(model), quiet():
        model.train(training)
        program = torch.export.export(
            model,
            (example.detach()[rows],),
            dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
            strict=False,
            preserve_module_call_signature=paths,
        )
    _refuse_some_batches_only(program)
    return program


def _refuse_some_batches_only(program: ExportedProgram) -> None:
    """L206 where the graph holds for batches like the example's only, as that of `x.split(4)` does: it has a fixed number of parts.

    What the exporter has assumed of the batch size is a range and a list of conditions. It tells of neither by itself.
    """
    import sympy  # here, because only an export needs it, and torch has loaded it by then

    name = program.graph_signature.user_inputs[0]
    example = next(node.meta["val"] for node in program.graph.nodes if node.name == name)
    size = example.shape[0].node
    allowed, conditions = program.range_constraints[size.expr], [guard.expr for guard in size.shape_env.guards]
    for rows in BATCHES:
        broken = [str(expr) for expr in conditions if expr.xreplace({size.expr: sympy.Integer(rows)}) is sympy.false]
        if not allowed.lower <= rows <= allowed.upper:
            broken.append(f"batches of {allowed.lower} to {allowed.upper} samples")
        if broken:
            only = broken[0].replace(str(size.expr), "n")
            raise LaminarError("L206", f"its graph does not hold for a batch of {rows} samples, only for {only}", hint="")


def archive_of(model: nn.Module, program: ExportedProgram, frozen: Frozen | None = None) -> Archive:
    """An exported program as an archive, without anything that depends on machine, time or example."""
    from torch._export.serde.serialize import serialize

    with quiet():
        serialized = serialize(program, serialize_state_dict=False, serialize_constants=False, serialize_example_inputs=False)
    content = json.loads(serialized.exported_program)
    prune_program(content)
    constants = {}
    for name, value in program.constants.items():
        if not isinstance(value, Tensor):
            raise LaminarError("L206", f"the model holds '{name}', a {type(value).__name__}, which cannot be kept", hint="use tensors")
        constants[name] = to_raw(value, name)
    _, aliases = state(model)
    return Archive(digest.canonical(content), constants, module_facts(model), aliases, fixed_parameters(model, frozen))


def fixed_parameters(model: nn.Module, frozen: Frozen | None) -> list[str]:
    """Parameters that get no gradient by their author's will, not by our freezing."""
    trainable = frozen.trainable if frozen is not None else set()
    return [name for name, p in model.named_parameters() if not p.requires_grad and name not in trainable]


def module_facts(model: nn.Module) -> list[ModuleFact]:
    """Every module in the model's order, the model itself first; one that is at several paths is described at the first."""
    found: list[ModuleFact] = []
    first: dict[int, str] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        if any(c in part for part in path.split(".") for c in ",;@") or any(part.startswith("__") for part in path.split(".")):
            raise LaminarError("L206", f"the module path '{path}' has one of , ; @ or __ in it", hint="rename the module")
        if id(module) in first:
            found.append(ModuleFact(path, "", {}, first[id(module)]))
            continue
        first[id(module)] = path
        kind = module.graph_kind if isinstance(module, GraphModule) else type(module).__name__
        found.append(ModuleFact(path, kind, _facts(module)))
    return found


def reason(error: BaseException) -> str:
    """One line: what stopped the export, and the line of the author's code where it happened."""
    where = ""
    seen: BaseException | None = error
    while seen is not None and not where:
        where = raised_at(seen)
        seen = seen.__cause__ or seen.__context__
    text = error.message if isinstance(error, LaminarError) else last_line(error)
    return text[:200].rstrip() + (f" at {where}" if where else "")


def _facts(module: nn.Module) -> dict[str, Any]:
    if isinstance(module, GraphModule):
        return dict(module.graph_facts)
    if type(module).__module__.startswith("torch.nn."):
        values = {name: getattr(module, name, None) for name in getattr(type(module), "__constants__", ())}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in values.items() if _is_plain(v)}
    return {n: v for n, v in vars(module).items() if type(v) is int and not n.startswith("_")}


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(isinstance(item, int) for item in value)
    return isinstance(value, bool | int | str) or (isinstance(value, float) and value == value and abs(value) != float("inf"))


def prune_program(content: dict[str, Any]) -> None:
    """Take out of torch's JSON what depends on machine, time or example."""
    _prune_graph(content["graph_module"]["graph"])
    content["graph_module"]["metadata"] = {}
    content["guards_code"] = []
    content["torch_version"] = ".".join(torch.__version__.split(".")[:2])


def _prune_graph(graph: dict[str, Any]) -> None:
    """Leave of a node's notes the module calls it happened in, without the names of classes; no hints of the example's size."""
    for node in graph["nodes"]:
        stack = node["metadata"].get("nn_module_stack")
        node["metadata"] = {"nn_module_stack": _prune_stack(stack)} if stack else {}
        for given in node["inputs"]:
            if "as_graph" in given["arg"]:
                _prune_graph(given["arg"]["as_graph"]["graph"])
    _drop_hints([graph["tensor_values"], graph["sym_int_values"], graph["sym_bool_values"], graph["sym_float_values"]])


def _prune_stack(stack: str) -> str:
    items = [item.split(",", 2) for item in stack.split(";")]
    return ";".join(f"{key},{path},Module" for key, path, _ in items)


def _drop_hints(value: Any) -> None:
    if isinstance(value, dict):
        if "expr_str" in value:
            value["hint"] = None
        for item in value.values():
            _drop_hints(item)
    elif isinstance(value, list):
        for item in value:
            _drop_hints(item)


@contextlib.contextmanager
def as_its_author_made_it(model: nn.Module) -> Iterator[None]:
    """Modes, gradient flags, buffers and random numbers are ours to change inside the block, and are as before after it."""
    buffers = [(module, dict(module._buffers)) for module in model.modules()]
    contents = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    grads = [(p, p.requires_grad) for p in model.parameters() if p.is_leaf and (p.is_floating_point() or p.is_complex())]
    try:
        # Some torch modules take a fused path when nothing wants a gradient; a graph must not depend on what was frozen.
        for parameter, _ in grads:
            parameter.requires_grad_(True)
        with keeping_modes(model), torch.random.fork_rng(devices=[]), torch.enable_grad():
            yield
    finally:
        for module, kept in buffers:
            module._buffers.update(kept)
        with torch.no_grad():
            for buffer, content in contents:
                buffer.copy_(content)
        for parameter, wanted in grads:
            parameter.requires_grad_(wanted)


@contextlib.contextmanager
def _visible_identities(model: nn.Module) -> Iterator[None]:
    """A module that returns its argument leaves no trace; give it one, so that it can be replaced and frozen by its path."""

    def hook(_: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        return torch.ops.aten.alias.default(output) if isinstance(output, Tensor) and any(a is output for a in args) else output

    handles = [module.register_forward_hook(hook) for name, module in model.named_modules() if name]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _recorded_assignments(model: nn.Module) -> Iterator[None]:
    """`self.mean = new` in the forward of a module is a write to its buffer. torch.export sees it on the model itself only."""
    inner = {id(module) for module in model.modules() if module is not model}
    first: dict[tuple[int, str], Tensor] = {}
    running = False
    plain = nn.Module.__setattr__

    def assign(self: nn.Module, name: str, value: Any) -> None:
        if running and id(self) in inner and isinstance(value, Tensor):
            old = self._buffers.get(name)
            if old is not None and old is not value:
                with torch.no_grad():
                    first.setdefault((id(self), name), old).copy_(value)
        plain(self, name, value)

    def enter(*_: Any) -> None:
        nonlocal running
        running = True

    def leave(*_: Any) -> None:
        nonlocal running
        running = False

    handles = [model.register_forward_pre_hook(enter), model.register_forward_hook(leave)]
    nn.Module.__setattr__ = assign  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.__setattr__ = plain  # type: ignore[method-assign]
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """torch.export reports to its maintainers by warnings and logs; what matters to us comes as an exception. Ctrl-C waits for its end."""
    loggers = [
        logging.getLogger(name)
        for name in (
            "torch.export",
            "torch._export",
            "torch.fx",
            "torch._dynamo",
            "torch._subclasses",
            "torch.fx.experimental.symbolic_shapes",
        )
    ]
    levels = [logger.level for logger in loggers]
    # and one of its refusals prints the whole graph
    with afterwards(), warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.CRITICAL)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
