"""Graphs: keep a model without its author's code, in its training and its evaluation form.

export_forms() writes both; load_forms() makes a model of them and of tensors from the store. Nothing is unpickled or evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from laminar.core.errors import LaminarError
from laminar.core.kernel_files import KernelName
from laminar.model.freeze import Frozen
from laminar.model.graph_export import archive_of, as_its_author_made_it, reason, traced
from laminar.model.graph_file import Archive, ModuleFact, constant_digest, read_archive, write_archive
from laminar.model.graph_ir import LEAF, Spec, Tree
from laminar.model.graph_kernels import kernel_in
from laminar.model.graph_members import refuse
from laminar.model.graph_module import GraphModel, GraphModule, Home
from laminar.model.graph_read import read_graph
from laminar.model.graph_text import structure
from laminar.model.graph_tree import build_tree, collapse
from laminar.model.weights import from_raw, state
from laminar.store.raw import RawTensor

_LEAF_CALL = Spec("tuple", (), (Spec("tuple", (), (LEAF,)), Spec("dict")))  # of model(x)

__all__ = ["Forms", "export_forms", "kernels_of", "load_forms", "proved", "structure_of"]


@dataclass(frozen=True)
class Forms:
    """The archives of a model's two forms (None where it cannot be exported; `note` says why), and the digest of its structure."""

    train: bytes | None
    eval: bytes | None
    structure: str
    note: str = ""


def export_forms(model: nn.Module, example: Tensor, *, frozen: Frozen | None = None, fallback_structure: str = "") -> Forms:
    """Both forms of `model` for batches of any size of samples like `example` (a batch of at least one).

    The model is left as it was. One that cannot be exported gives no archives, a note, and `fallback_structure`.
    """
    try:
        archives = {training: archive_of(model, traced(model, example, training=training), frozen) for training in (True, False)}
        trees = _trees(archives[True], archives[False])
        train = write_archive(archives[True], leave_out=archives[False].constants)
        evaluation = write_archive(archives[False])
        _prove(model, load_forms(train, evaluation, *_own_tensors(model)), example)
    except Exception as error:  # torch.export fails in too many ways to list; each of them means: this model needs its source
        return Forms(
            None,
            None,
            fallback_structure,
            f"the model cannot be exported, so it needs its source code wherever it is used: {reason(error)}",
        )
    return Forms(train, evaluation, structure(trees[True], trees[False]))


def proved(model: nn.Module, train: bytes, evaluation: bytes, example: Tensor) -> Forms | None:
    """Archives that were made before, as the forms of `model`: None unless they do what it does."""
    try:
        _prove(model, load_forms(train, evaluation, *_own_tensors(model)), example)
        return Forms(train, evaluation, structure_of(train, evaluation))
    except Exception:  # whatever is wrong with them, the model can be traced
        return None


def load_forms(
    train: bytes | None, evaluation: bytes | None, tensors: Mapping[str, Tensor | RawTensor], aliases: Mapping[str, str] | None = None
) -> nn.Module:
    """The model of two archives, its parameters and buffers being `tensors` themselves (not copies).

    With one archive only, it serves for both forms. Names that are tied (`aliases`, and those the archive knows of) share one tensor.
    """
    if train is None and evaluation is None:
        raise LaminarError(
            "L206",
            "the layer has no graph: its model could not be exported",
            hint="build or load it in the project that has its source code",
        )
    archives = {
        True: read_archive(train, evaluation) if train is not None else read_archive(evaluation or b""),
        False: read_archive(evaluation, train) if evaluation is not None else read_archive(train or b""),
    }
    return assemble(archives[True], archives[False], tensors, {**archives[False].aliases, **(aliases or {})})


def structure_of(train: bytes, evaluation: bytes) -> str:
    """The structure digest of two archives."""
    trees = _trees(read_archive(train, evaluation), read_archive(evaluation, train))
    return structure(trees[True], trees[False])


def kernels_of(train: bytes, evaluation: bytes) -> list[KernelName]:
    """The kernels that two archives call, by name."""
    trees = _trees(read_archive(train, evaluation), read_archive(evaluation, train))
    found = {kernel for tree in trees.values() for node in tree.flat.nodes if (kernel := kernel_in(node.target)) is not None}
    return sorted(found, key=lambda one: (one.stem, one.sha256))


def assemble(train: Archive, evaluation: Archive, tensors: Mapping[str, Tensor | RawTensor], aliases: Mapping[str, str]) -> nn.Module:
    """Modules from facts, tensors into them, bodies onto them."""
    try:
        return _assemble(train, evaluation, tensors, aliases)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, RecursionError) as error:
        raise refuse(f"its parts do not fit together ({type(error).__name__}: {str(error)[:80]})") from error


def _assemble(train: Archive, evaluation: Archive, tensors: Mapping[str, Tensor | RawTensor], aliases: Mapping[str, str]) -> nn.Module:
    trees = _trees(train, evaluation)
    if any(tree.flat.signature.in_spec != _LEAF_CALL for tree in trees.values()):
        raise refuse("its model takes something else than one batch of samples")
    constants = {constant_digest(raw): from_raw(raw) for archive in (train, evaluation) for raw in archive.constants.values()}
    home = Home(constants)
    model = GraphModel("", evaluation.modules[0].kind if evaluation.modules else "Model", home)
    home.root = model
    _make_modules(model, home, evaluation.modules or _modules_from(trees))
    _make_tensors(model, trees, evaluation, tensors, aliases)
    for training, tree in trees.items():
        for path, bodies in tree.bodies.items():
            module = model.get_submodule(path)
            if not isinstance(module, GraphModule):
                raise refuse(f"'{path}' is no module of it")
            module.set_bodies(training, bodies)
    return model


def _trees(train: Archive, evaluation: Archive) -> dict[bool, Tree]:
    made = {}
    for training, archive in ((True, train), (False, evaluation)):
        digests = {name: constant_digest(raw) for name, raw in archive.constants.items()}
        made[training] = build_tree(read_graph(archive.graph, digests))
    collapse(*made.values())
    return made


def _make_modules(model: GraphModel, home: Home, facts: list[ModuleFact]) -> None:
    for fact in facts:
        if not fact.path:
            model.set_facts(fact.facts)
            continue
        parent_path, _, name = fact.path.rpartition(".")
        parent = model.get_submodule(parent_path)
        if fact.same_as is not None:
            parent.add_module(name, model.get_submodule(fact.same_as))
            continue
        module = GraphModule(fact.path, fact.kind, home)
        parent.add_module(name, module)
        module.set_facts(fact.facts)


def _modules_from(trees: Mapping[bool, Tree]) -> list[ModuleFact]:
    """Paths of an archive that was not written by us: those of its tensors and of its calls."""
    paths: dict[str, None] = {}
    for tree in trees.values():
        names = [a.name.rpartition(".")[0] for a in tree.flat.tensors.values() if a.kind != "constant"] + list(tree.bodies)
        for name in names:
            parts = name.split(".") if name else []
            paths.update(dict.fromkeys(".".join(parts[: i + 1]) for i in range(len(parts))))
    return [ModuleFact(path, "Module") for path in paths]


def _make_tensors(
    model: GraphModel, trees: Mapping[bool, Tree], archive: Archive, tensors: Mapping[str, Tensor | RawTensor], aliases: Mapping[str, str]
) -> None:
    given: dict[str, Tensor] = {}
    made: dict[str, Tensor] = {}
    persistent = trees[False].flat.persistent
    wanted: dict[str, str] = {}
    for tree in (trees[False], trees[True]):
        for attr in tree.flat.tensors.values():
            if attr.kind != "constant":
                wanted.setdefault(attr.name, attr.kind)
    for name, kept in aliases.items():
        wanted.setdefault(name, wanted.get(kept, "parameter"))
    for name, kind in wanted.items():
        source = aliases.get(name, name)
        value: Tensor | RawTensor | None = tensors.get(source, tensors.get(name))
        saved = persistent.get(name, True)
        if value is None and not saved:
            value = archive.constants.get(name)
        if value is None:
            raise LaminarError("L205", f"the model wants the tensor '{name}', which is not there", hint="laminar verify --repair")
        if source not in given:
            given[source] = value if isinstance(value, Tensor) else from_raw(value)
        module_path, _, leaf = name.rpartition(".")
        module = model.get_submodule(module_path)
        if kind == "parameter":
            if source not in made:
                trainable = name not in archive.fixed and (given[source].is_floating_point() or given[source].is_complex())
                made[source] = nn.Parameter(given[source].detach(), requires_grad=trainable)
            module.register_parameter(leaf, made[source])  # type: ignore[arg-type]  # made above
        else:
            module.register_buffer(leaf, made.setdefault(source, given[source].detach()), persistent=saved)


def _own_tensors(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The model's parameters themselves and copies of its buffers, for a trial run."""
    tensors, aliases = state(model)
    buffers = {name for name, _ in model.named_buffers(remove_duplicate=False)}
    return {name: tensor.clone() if name in buffers else tensor for name, tensor in tensors.items()}, aliases


def _prove(model: nn.Module, loaded: nn.Module, example: Tensor) -> None:
    """Both forms of what was written do what the model does, batch statistics included; else it is no export."""
    x = example.detach()[torch.arange(2) % len(example)]
    for training in (False, True):
        outcomes = []
        for one in (model, loaded):
            with as_its_author_made_it(one):
                one.train(training)
                torch.manual_seed(0)
                outcomes.append(_outcome(one, x))
        if not _alike(*outcomes):
            raise LaminarError(
                "L206", f"its graph in {'training' if training else 'evaluation'} gives other numbers than the model", hint=""
            )


def _outcome(model: nn.Module, x: Tensor) -> object:
    """What a model does with a batch: its output, its gradients, and what became of its buffers."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with torch.enable_grad():
        made = model(x)
    gradients: object = None
    if isinstance(made, Tensor) and made.requires_grad and trained:
        # Weighted, so that outputs which always sum up to the same (softmax) have a gradient, too.
        weights = torch.linspace(-1, 1, made.numel(), dtype=made.dtype).reshape(made.shape)
        gradients = dict(zip(trained, torch.autograd.grad((made * weights).sum(), list(trained.values()), allow_unused=True), strict=True))
    return made, gradients, {name: buffer.detach().clone() for name, buffer in model.named_buffers()}


def _alike(a: object, b: object) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        a, b = a.to_dense(), b.to_dense()  # an embedding may give a sparse gradient
        if not a.is_floating_point():
            return torch.equal(a, b)
        scale = float(a.detach().abs().max()) if a.numel() else 0.0
        return torch.allclose(a, b, rtol=1e-3, atol=1e-5 * max(scale, 1.0), equal_nan=True)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_alike(p, q) for p, q in zip(a, b, strict=True))
    return a is b or a == b
