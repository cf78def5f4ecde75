# SPDX-License-Identifier: Apache-2.0
"""Names and values of the state that calls of a module may change.

The results of calls decide whether a program lacks state. This finds the name of the state for the
message, and counters of calls, on which later calls may depend.
"""

from __future__ import annotations

import hashlib
import operator
import random
from collections import deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum, auto
from types import FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, Final

import numpy
import torch

_STANDARD: Final = frozenset(vars(torch.nn.Module()))
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), torch.Size, torch.dtype)
_DEPTH: Final = 6
# Of one container.
_ITEMS: Final = 1000
_LENGTH: Final = " (length)"


class Kept(Enum):
    """Which values a `State` has.

    Attributes:
        PLAIN: scalars, strings and the like, in attributes of modules and in containers there.
        ADVANCED: the positions of generators and iterators.
        ALL: these, and tensors.
        TENSORS: tensors alone, themselves.
    """

    PLAIN = auto()
    ADVANCED = auto()
    ALL = auto()
    TENSORS = auto()


@dataclass
class State:
    """Values by name, such as "cache.keys['layer']".

    Attributes:
        values: name -> a value to compare.
        alive: objects whose identities are among the values, or were seen.
    """

    values: dict[str, object] = field(default_factory=dict)
    alive: dict[int, Any] = field(default_factory=dict)

    def changed(self, after: State) -> list[str]:
        """Returns the names of values that another state lacks, or has with other values."""
        names = [
            name
            for name in {**self.values, **after.values}
            if self.values.get(name) != after.values.get(name)
        ]
        grown = tuple(name.removesuffix(_LENGTH) for name in names if name.endswith(_LENGTH))
        inside = tuple(f"{name}[" for name in grown)
        return [
            *grown,
            *(name for name in names if not name.endswith(_LENGTH) and not name.startswith(inside)),
        ]


def attributes_of(module: torch.nn.Module) -> State:
    """Returns the plain values in a module's attributes, and in containers there.

    With them come the states of generators and iterators anywhere: a call that draws from one may return the
    same as the previous call.
    """
    plain = State()
    for name, value in _attributes(module):
        _add(plain, name, value, _DEPTH, Kept.PLAIN)
    advanced = _all_values(module, Kept.ADVANCED)
    return State({**advanced.values, **plain.values}, {**advanced.alive, **plain.alive})


def everything_of(module: torch.nn.Module) -> State:
    """Returns all values that a module refers to: also tensors, helper objects, classes, closures, globals.

    Of buffers, the identity is a value: an exported program has those that are written in place.
    """
    state = _all_values(module, Kept.ALL)
    for path, each in module.named_modules():
        for name, buffer in each._buffers.items():
            state.alive[id(buffer)] = buffer
            state.values[f"{path}.{name}" if path else name] = id(buffer)
    return state


def tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns the tensors that a module refers to outside of parameters and buffers."""
    values = _all_values(module, Kept.TENSORS).values
    return {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}


def _all_values(module: torch.nn.Module, kept: Kept) -> State:
    state = State()
    for name, value in _attributes(module):
        _add(state, name, value, _DEPTH, kept)
    for kind in dict.fromkeys(map(type, module.modules())):
        for name, value in _outside(kind):
            _add(state, name, value, _DEPTH, kept)
    return state


def _attributes(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    for path, each in module.named_modules():
        for name, value in list(vars(each).items()):
            if name not in _STANDARD:
                yield f"{path}.{name}" if path else name, value


def _add(state: State, name: str, value: Any, depth: int, kept: Kept) -> None:
    if name in state.values:  # an attribute hides that of its class
        return
    if type(value) in _PLAIN:
        if kept is not Kept.ADVANCED:
            state.values[name] = (type(value), repr(value))  # NaN equals itself, and 1 is not 1.0 or True
        return
    if id(value) in state.alive or not depth or isinstance(value, (torch.nn.Module, ModuleType, type)):
        return
    state.alive[id(value)] = value
    if isinstance(value, torch.Tensor):
        if kept is Kept.ALL:
            state.values[name] = digest(value)
        if kept is Kept.TENSORS:
            state.values[name] = value
        return
    if (position := _position(value)) is not None:
        state.values[name] = position
    if kept is Kept.PLAIN and not isinstance(value, (Mapping, list, tuple, deque, Set)):
        return
    if kept is not Kept.ADVANCED and isinstance(value, (Mapping, list, deque)):
        state.values[f"{name}{_LENGTH}"] = len(value)
    if kept is not Kept.ADVANCED and isinstance(value, Set):
        state.values[name] = sorted(map(repr, value))
    for inner, item in _parts(value):
        _add(state, f"{name}{inner}", item, depth - 1, kept)


def _position(value: Any) -> object:
    """Returns the position of a generator or an iterator; None for other values."""
    if isinstance(value, random.Random):
        return hash(value.getstate())
    if isinstance(value, torch.Generator):
        return digest(value.get_state())
    if isinstance(value, numpy.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, numpy.random.RandomState):
        return repr(value.get_state(legacy=False))
    if isinstance(value, GeneratorType):
        return value.gi_frame and (value.gi_frame.f_lasti, repr(value.gi_frame.f_locals))
    if isinstance(value, Iterator) and hasattr(value, "__length_hint__"):
        return operator.length_hint(value)
    return repr(value) if type(value).__module__ == "itertools" else None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the values inside a value, with the suffixes of its name."""
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", item) for key, item in list(value.items())[:_ITEMS])
    elif isinstance(value, (list, tuple, deque)):
        yield from ((f"[{index}]", item) for index, item in enumerate(list(value)[:_ITEMS]))
    elif isinstance(value, MethodType):
        yield from _parts(value.__func__)
    elif isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield f".{name}", cell.cell_contents
            except ValueError:  # an empty cell
                continue
        for name in sorted(value.__globals__.keys() & value.__code__.co_names):
            if not isinstance(value.__globals__[name], FunctionType):
                yield f".{name}", value.__globals__[name]
    elif not isinstance(value, type) and type(getattr(value, "__dict__", None)) is dict:
        yield from ((f".{name}", item) for name, item in list(vars(value).items()))
        yield from _class_attributes(type(value), "")


def _outside(kind: type) -> Iterator[tuple[str, Any]]:
    """Yields what the instances of a class share: its attributes, and what its methods refer to."""
    yield from _class_attributes(kind, kind.__name__)
    for each in kind.__mro__:
        for function in vars(each).values() if not _is_library(each) else ():
            if isinstance(function, FunctionType):
                yield f"{each.__name__}.{function.__name__}", function


def _class_attributes(kind: type, owner: str) -> Iterator[tuple[str, Any]]:
    for each in kind.__mro__:
        for name, value in list(vars(each).items()) if not _is_library(each) else ():
            if not name.startswith("__") and not callable(value):
                yield f"{owner}.{name}", value


def _is_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("torch", "builtins")


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the elements of a tensor as bytes, in row-major order."""
    # A contiguous tensor of one element may have any strides, which a view as another dtype rejects.
    data = tensor.detach().contiguous()
    return data.as_strided((data.numel(),), (1,)).view(torch.uint8)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor has elements in memory that `bits` reads."""
    return tensor.device.type == "cpu" and tensor.layout is torch.strided and tensor.numel() > 0


def digest(tensor: torch.Tensor) -> object:
    """Returns a value that equals that of a tensor with the same shape, dtype and bits."""
    data = tensor.detach()
    if not is_plain(data):
        return data.shape
    content: Any = bits(data).numpy()
    return data.shape, data.dtype, hashlib.blake2b(content, digest_size=16).digest()
