# SPDX-License-Identifier: Apache-2.0
"""Detection of state in plain attributes of modules, which an exported program would lose without a word.

torch.export restores these attributes after tracing. A cache, which a second call finds as it should be, is
harmless; a counter is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._pytree import tree_leaves, tree_map

from delegatec.diagnostics import Diagnostic, SourceLocation
from delegatec.frontend.model import Method

# Path of the attribute -> its comparable value.
State = dict[str, object]

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), torch.Size, torch.dtype)
_DEPTH: Final = 4
_UNKNOWN: Final = object()
_STANDARD: Final = frozenset(vars(torch.nn.Module()))


@contextmanager
def changed_attributes(module: torch.nn.Module, strict: bool) -> Iterator[set[str]]:
    """Yields a set that receives the plain attributes that calls of a module change within the scope.

    Args:
        module: the module.
        strict: whether torch.compile traces it, which rejects hooks; the set has all attributes then.
    """
    before, changed = _state(module), set[str]()
    if strict:
        yield set(before)
        return

    def compare(called: torch.nn.Module, _: object, __: object) -> None:
        if called is module:
            changed.update(_differing(before, _state(module)))

    handle = register_module_forward_hook(compare)
    try:
        yield changed
    finally:
        handle.remove()


def plain_state_problems(
    module: torch.nn.Module, method: Method, changed: set[str], where: SourceLocation | None
) -> list[Diagnostic]:
    """Returns a problem for each changed attribute that is state: a second call differs from the first.

    Args:
        module: runs twice in eager mode if there are any; its attributes and buffers are restored.
        method: the method, and how it is called.
        changed: paths of attributes that a call may change.
        where: the line that created the Model.
    """
    if not changed:
        return []
    before = _state(module)
    with _restored_attributes(module):
        results, states = zip(*(_called(module, method) for _ in range(2)), strict=True)
    state = changed & set(_differing(*states))
    if not state and not _equal(*results):
        state = changed & set(_differing(before, states[0]))
    return [
        Diagnostic(
            "DC124",
            f"{method.function}() changes the attribute {name!r}, which calls after it depend on",
            location=where,
            expected="state in buffers: a program keeps no Python attributes",
            help="register it as a buffer and change that in place, or pass it as an input and return it",
        )
        for name in sorted(state)
    ]


def _called(module: torch.nn.Module, method: Method) -> tuple[Any, State]:
    with torch.no_grad(), torch.random.fork_rng(devices=[]), _restored_buffers(module):
        torch.manual_seed(0)
        result = getattr(module, method.function)(*method.example_inputs, **dict(method.example_kwargs or {}))
    return result, _state(module)


@contextmanager
def _restored_attributes(module: torch.nn.Module) -> Iterator[None]:
    # Containers are copied, as torch.export does.
    before = [(each, tree_map(lambda value: value, _attributes(each))) for each in module.modules()]
    try:
        yield
    finally:
        for each, values in before:
            for name in _attributes(each).keys() - values.keys():
                delattr(each, name)
            vars(each).update(values)


@contextmanager
def _restored_buffers(module: torch.nn.Module) -> Iterator[None]:
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)


def _state(module: torch.nn.Module) -> State:
    return {
        f"{path}.{name}" if path else name: _comparable(value)
        for path, each in module.named_modules()
        for name, value in _attributes(each).items()
    }


def _attributes(module: torch.nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name not in _STANDARD}


def _comparable(value: object, depth: int = _DEPTH) -> object:
    """Returns a copy of a plain value, or of containers of such; all other values are the same."""
    if type(value) in _PLAIN:
        return repr(value)  # NaN equals itself, and 1 is not 1.0 or True
    if depth and type(value) in (list, tuple, set, frozenset):
        assert isinstance(value, (list, tuple, set, frozenset))
        return type(value), [_comparable(item, depth - 1) for item in value]
    if depth and isinstance(value, Mapping):
        return [(repr(key), _comparable(item, depth - 1)) for key, item in value.items()]
    return _UNKNOWN


def _differing(before: State, after: State) -> Iterator[str]:
    for name in before.keys() | after.keys():
        if before.get(name) != after.get(name):
            yield name


def _equal(first: Any, second: Any) -> bool:
    one, other = (tree_leaves(value) for value in (first, second))
    return len(one) == len(other) and all(
        torch.equal(a.nan_to_num(), b.nan_to_num())
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        else type(a) is type(b)
        for a, b in zip(one, other, strict=True)
    )
