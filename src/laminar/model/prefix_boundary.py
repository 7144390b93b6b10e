"""The fallback: cut at module boundaries, by watching one run of the model.

The prefix is the longest chain of frozen modules, each called once, the first fed by the model's input itself and each next fed by
the very tensor that the one before returned. Training then runs the real model with those modules stubbed: the last returns the
kept features, the earlier ones hand their argument on. What a hook cannot see (a value used twice, a shape read in between)
is settled by comparing the stubbed model with the real one; a chain that does not agree is shortened.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from laminar.core import digest
from laminar.core.closure import closure_digest
from laminar.model.prefix import CannotCut, Cut, NoPrefix
from laminar.model.prefix_split import close

AGREES: Final = 1e-5

# Modules without tensors that are the same in training and eval mode, and so may stand in the chain though nobody froze them.
_STATELESS: Final = (
    *(
        nn.ReLU,
        nn.ReLU6,
        nn.LeakyReLU,
        nn.ELU,
        nn.SELU,
        nn.GELU,
        nn.SiLU,
        nn.Mish,
        nn.Sigmoid,
        nn.Tanh,
        nn.Hardtanh,
        nn.Hardswish,
        nn.Softplus,
    ),
    *(nn.Softmax, nn.LogSoftmax, nn.Softmax2d, nn.Identity, nn.Flatten, nn.Unflatten, nn.ZeroPad2d, nn.PixelShuffle, nn.Upsample),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d),
)


@dataclass
class _Call:
    module: nn.Module
    given: Tensor | None  # None: not a single tensor
    returned: Tensor | None


def cut_by_modules(
    model: nn.Module, example: Tensor, fit_mode: Callable[[], None], test_mode: Callable[[], None]
) -> tuple[Cut, Cut] | NoPrefix:
    names = {module: name for name, module in model.named_modules()}
    fit_mode()
    try:
        chain = _chain(model, example)
    except Exception as error:  # the author's code runs here; training will show its error in full
        return NoPrefix(f"the model failed on a batch of {len(example)}: {error}")
    if not chain:
        return NoPrefix("no frozen module is fed by the model's input itself")
    for length in range(len(chain), 0, -1):
        modules = chain[:length]
        if not any(True for m in modules for _ in (*m.parameters(), *m.buffers())):
            break
        try:
            if all(_agrees(model, modules, example, mode) for mode in (fit_mode, test_mode)):
                return _cut(model, modules, names, example, fit_mode), _cut(model, modules, names, example, test_mode)
        except CannotCut as why:
            return NoPrefix(str(why))
    return NoPrefix(f"the model uses more of its frozen part than the output of '{names[chain[-1]]}'")


def _chain(model: nn.Module, example: Tensor) -> list[nn.Module]:
    calls = _watch(model, example)
    times: dict[nn.Module, int] = {}
    for call in calls:
        times[call.module] = times.get(call.module, 0) + 1
    chain: list[nn.Module] = []
    inside: set[nn.Module] = set()
    at = example
    while True:
        fed = [c for c in calls if c.given is at and c.module not in inside and times[c.module] == 1 and _may_stand_in_chain(c)]
        if not fed:
            return chain
        outermost = max(fed, key=lambda c: sum(1 for _ in c.module.modules()))
        chain.append(outermost.module)
        inside.update(outermost.module.modules())
        assert outermost.returned is not None
        at = outermost.returned


def _may_stand_in_chain(call: _Call) -> bool:
    if call.given is None or call.returned is None or call.returned.dim() == 0 or call.returned.shape[0] != call.given.shape[0]:
        return False
    if any(p.requires_grad for p in call.module.parameters()):
        return False
    return all(not m.training or type(m) in _STATELESS for m in call.module.modules())


def _watch(model: nn.Module, example: Tensor) -> list[_Call]:
    """Every call of a module in one run. The tensors are held, so that identity means what it says."""
    calls: list[_Call] = []

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        single = len(args) == 1 and not kwargs and isinstance(args[0], Tensor)
        calls.append(_Call(module, args[0] if single else None, output if isinstance(output, Tensor) else None))

    handles = [m.register_forward_hook(hook, with_kwargs=True) for m in model.modules()]
    try:
        with torch.no_grad():
            model(example)
    finally:
        for handle in handles:
            handle.remove()
    return calls


class _Chain(nn.Module):
    """sample -> (sample, feature)"""

    def __init__(self, modules: list[nn.Module]) -> None:
        super().__init__()
        self.chain = nn.ModuleList(modules)

    def forward(self, sample: Tensor) -> tuple[Tensor, Tensor]:
        value = sample.clone()
        for module in self.chain:
            value = module(value)
        return sample, value


class _Stubbed(nn.Module):
    """(sample, feature) -> the model's output, the chain not being computed."""

    def __init__(self, model: nn.Module, modules: list[nn.Module]) -> None:
        super().__init__()
        self.model = model
        self._stubs = modules  # a plain list: they are in the model already

    def forward(self, sample: Tensor, feature: Tensor) -> Any:
        with _stubbed(self._stubs, feature):
            return self.model(sample)


@contextlib.contextmanager
def _stubbed(modules: list[nn.Module], feature: Tensor) -> Iterator[None]:
    before = [m.__dict__.get("forward") for m in modules]
    try:
        for module in modules[:-1]:
            module.__dict__["forward"] = lambda value: value
        modules[-1].__dict__["forward"] = lambda _: feature
        yield
    finally:
        for module, forward in zip(modules, before, strict=True):
            if forward is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = forward


def _agrees(model: nn.Module, modules: list[nn.Module], example: Tensor, set_mode: Callable[[], None]) -> bool:
    """Same seed, same buffers before: the same output with and without the stubs."""
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    set_mode()
    outputs: list[Any] = []
    try:
        for stubbed in (False, True):
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                outputs.append(_Stubbed(model, modules)(*_Chain(modules)(example)) if stubbed else model(example))
            with torch.no_grad():
                for buffer, saved in buffers:
                    buffer.copy_(saved)
    except Exception:  # a stub of the wrong shape fails wherever the author's code first notices
        return False
    plain, short = outputs
    return isinstance(plain, Tensor) and isinstance(short, Tensor) and close(plain, short, AGREES)


def _cut(model: nn.Module, modules: list[nn.Module], names: dict[nn.Module, str], example: Tensor, set_mode: Callable[[], None]) -> Cut:
    set_mode()
    features = _Chain(modules)
    with torch.no_grad():
        _, value = features(example)
    return Cut(
        features=features,
        suffix=_Stubbed(model, modules),
        shapes=(tuple(example.shape[1:]), tuple(value.shape[1:])),
        dtypes=(example.dtype, value.dtype),
        input_at=0,
        tensors=tuple(t for m in modules for t in (*m.parameters(), *m.buffers())),
        graph=["modules", [_describe(m) for m in modules]],
        modules=tuple(names[m] for m in modules),
        locate=lambda few, more, tolerance: _locate(modules, names, few, more, tolerance),
    )


def _describe(module: nn.Module) -> Any:
    """What a module does, as far as it can be said without its graph: class, settings, and the source that its class reaches."""
    parts: list[Any] = []
    for part in module.modules():
        kind = type(part)
        settings = {
            k: repr(v) for k, v in vars(part).items() if not k.startswith("_") and isinstance(v, (bool, int, float, str, tuple, list))
        }
        settings.pop("training", None)
        parts.append([kind.__qualname__, part.extra_repr(), settings, "" if kind.__module__.startswith("torch.") else _source(kind)])
    return parts


def _source(kind: type) -> str:
    try:
        file = Path(inspect.getfile(kind)).resolve()
        root = file.parent
        while (root / "__init__.py").is_file():
            root = root.parent
        return digest.of_json([kind.__module__.rpartition(".")[2], closure_digest(file, root)])
    except (OSError, TypeError, ValueError, SyntaxError) as error:
        raise CannotCut(f"the source of {kind.__qualname__} cannot be read, so its features cannot be told from another's") from error


def _locate(modules: list[nn.Module], names: dict[nn.Module, str], few: Tensor, more: Tensor, tolerance: float) -> str:
    seen = [_outputs(modules, batch) for batch in (few, more)]
    for (module, alone), (_, among) in zip(*seen, strict=True):
        if alone.shape[:1] != few.shape[:1] or not close(alone, among[: len(few)], tolerance):
            return f"'{names.get(module, '')}' ({type(module).__name__})"
    return ""


def _outputs(modules: list[nn.Module], batch: Tensor) -> list[tuple[nn.Module, Tensor]]:
    """Outputs of the innermost modules of the chain, in the order in which they ended."""
    found: list[tuple[nn.Module, Tensor]] = []

    def hook(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            found.append((module, output.clone()))

    handles = [m.register_forward_hook(hook) for top in modules for m in top.modules()]
    try:
        with torch.no_grad():
            _Chain(modules)(batch)
    finally:
        for handle in handles:
            handle.remove()
    return found
