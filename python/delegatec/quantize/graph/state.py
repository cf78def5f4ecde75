# SPDX-License-Identifier: Apache-2.0
"""State of a model, which calls write to: it is never a constant, and never identified by its value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

# Of the states that are kept for methods that only read them.
_MOST_BYTES: Final = 1 << 28


class ObservedState:
    """The state while samples are observed: it persists from one sample to the next, also of the next method.

    A method that only reads it is also observed with the state after each sample of a method that writes to
    it, as if their calls alternated.

    Args:
        state: names of all state of the model.
        read: names of the state of methods that only read it.
    """

    def __init__(self, state: Collection[str], read: Collection[str] = ()) -> None:
        self._state = state
        self._read = read
        self._current: dict[str, Tensor] = {}
        self._history: list[dict[str, Tensor]] = []
        self._bytes = 0

    def keep(self, graph: GraphModule) -> None:
        """Keeps the state after a sample of a method that writes to it, up to a number of bytes."""
        kept = {name: tensor for name, tensor in _tensors(graph).items() if name in self._read}
        self._bytes += sum(tensor.nbytes for tensor in kept.values())
        if self._bytes <= _MOST_BYTES:
            self._history.append({name: tensor.clone() for name, tensor in kept.items()})

    def restore(self, graph: GraphModule, index: int) -> None:
        """Sets the state for a sample of a method that only reads it; the last one, if there are too few."""
        tensors = _tensors(graph)
        for name, value in self._history[index].items() if index < len(self._history) else ():
            if name in tensors:
                tensors[name].copy_(value)

    def finish(self, graph: GraphModule, initial: Mapping[str, Tensor]) -> None:
        """Writes the initial values to the state of a graph that only reads it."""
        tensors = _tensors(graph)
        for name in initial.keys() & tensors.keys():
            tensors[name].copy_(initial[name])

    def enter(self, graph: GraphModule) -> dict[str, Tensor]:
        """Gives a graph separate memory for state, since a file is read-only; returns the initial values."""
        initial = {name: tensor.clone() for name, tensor in _tensors(graph).items() if name in self._state}
        for name, value in initial.items():
            _set(graph, name, self._current.get(name, value).clone())
        return initial

    def leave(self, graph: GraphModule, initial: Mapping[str, Tensor]) -> None:
        """Writes the initial values to the state of a graph that has observed all samples of its method."""
        tensors = _tensors(graph)
        self._current |= {name: tensors[name].clone() for name in initial.keys() & tensors.keys()}
        self.finish(graph, initial)


class SharedTensors:
    """Tensors of several methods, so that each is stored once, and that each name is one tensor.

    A method has separate ranges, and so separate quantized values of a bias, which get another name than
    those of others. Equal constants are one tensor, with any names. State is one tensor if it has one name:
    two caches of zeros are not the same.

    Args:
        state: names of all state of the model.
    """

    def __init__(self, state: Collection[str]) -> None:
        self._state = state
        self._named: dict[str, Tensor] = {}
        self._constants: dict[tuple[Any, ...], list[Tensor]] = {}

    def share(self, graph: GraphModule) -> None:
        """Replaces tensors of a graph with those of graphs before it, in place."""
        renamed: dict[str, str] = {}
        for name, tensor in _tensors(graph).items():
            same = self._named.setdefault(name, tensor) if name in self._state else self._constant(tensor)
            if same is not tensor:
                _set(graph, name, same)
            is_taken = self._named.setdefault(name, same) is not same
            if is_taken and not isinstance(same, nn.Parameter):
                renamed[name] = self._moved(graph, name, same)
        for node in graph.graph.nodes if renamed else ():
            if node.op == "get_attr":
                node.target = renamed.get(str(node.target), node.target)
        graph.recompile()

    def _moved(self, graph: GraphModule, name: str, tensor: Tensor) -> str:
        """Gives a tensor a name that no other tensor has."""
        suffix, new = 1, f"{name}_1"
        while self._named.setdefault(new, tensor) is not tensor or _has(graph, new):
            suffix += 1
            new = f"{name}_{suffix}"
        owner, _, last = new.rpartition(".")
        delattr(graph.get_submodule(owner), name.rpartition(".")[2])
        graph.get_submodule(owner).register_buffer(last, tensor)
        return new

    def _constant(self, tensor: Tensor) -> Tensor:
        if isinstance(tensor, nn.Parameter):
            return tensor  # of the file, so that its memory is shared already
        key = (tensor.dtype, tuple(tensor.shape), float(tensor.sum(dtype=torch.float64)))
        known = self._constants.setdefault(key, [])
        same = next((other for other in known if torch.equal(_bytes(other), _bytes(tensor))), None)
        if same is None:
            known.append(tensor)
        return tensor if same is None else same


def _bytes(tensor: Tensor) -> Tensor:
    """Returns the bytes of a tensor: 0.0 equals -0.0, but their reciprocals differ."""
    return tensor.contiguous().as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def _tensors(graph: GraphModule) -> dict[str, Tensor]:
    """Returns the parameters and buffers of a graph by all their names."""
    return {
        **dict(graph.named_parameters(remove_duplicate=False)),
        **dict(graph.named_buffers(remove_duplicate=False)),
    }


def _set(graph: GraphModule, name: str, value: Tensor) -> None:
    owner, _, last = name.rpartition(".")
    module = graph.get_submodule(owner)
    is_parameter = isinstance(getattr(module, last), nn.Parameter)
    if is_parameter and not isinstance(value, nn.Parameter):
        value = nn.Parameter(value, requires_grad=False)
    setattr(module, last, value)


def _has(graph: GraphModule, name: str) -> bool:
    owner, _, last = name.rpartition(".")
    return hasattr(graph.get_submodule(owner), last)
