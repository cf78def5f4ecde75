# SPDX-License-Identifier: Apache-2.0
"""A tracer of decompositions on tensors of static shapes: like `make_fx`, at a fraction of its cost."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, Node
from torch.fx.node import map_aggregate
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, autograd_would_have_decomposed

from delegatec.edge.fakes import computed

aten = torch.ops.aten

Decompositions = Mapping[Any, Callable[..., Any]]

# Calls of these return scalars.
_SIZES = frozenset({aten.size.default, aten.stride.default, aten.storage_offset.default})


class NotRecordedError(Exception):
    """A trace that needs `make_fx`: for constants, writes, values of tensors, or symbolic sizes."""


def record(
    function: Callable[..., Any],
    operands: Sequence[Any],
    mode: FakeTensorMode,
    decompositions: Decompositions,
) -> Graph:
    """Returns the calls of a function, decomposed, as a graph with a placeholder per operand.

    Args:
        function: computes tensors from the operands.
        operands: fake tensors; none of them twice.
        mode: their mode, entered.
        decompositions: replace calls of these operators.

    Raises:
        NotRecordedError: the trace needs `make_fx`.
    """
    if not all(type(each) is FakeTensor and not each._has_symbolic_sizes_strides for each in operands):
        raise NotRecordedError
    recorder = _Recorder(operands, mode, decompositions)
    with recorder:
        results = function(*operands)
    recorder.graph.output(pytree.tree_map_only(torch.Tensor, recorder.node_of, results))
    return recorder.graph


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records calls; see `record`."""

    def __init__(
        self, operands: Sequence[FakeTensor], mode: FakeTensorMode, decompositions: Decompositions
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self._mode = mode
        self._decompositions = decompositions
        # identity of a tensor -> the tensor, to keep it alive, and its node
        self._nodes: dict[int, tuple[Any, Node]] = {}
        # identities of the results of calls that have no views
        self._unshared: set[int] = set()
        for index, operand in enumerate(operands):
            self._define(operand, self.graph.placeholder(f"operand_{index}"))

    def node_of(self, value: Any) -> Any:
        """Returns the node of a tensor; other values unchanged."""
        if isinstance(value, torch.Tensor):
            known = self._nodes.get(id(value))
            if known is None:
                raise NotRecordedError
            return known[1]
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise NotRecordedError
        return value

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Decomposes or records a call."""
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return args[0].fake_device
        if func in self._decompositions:
            with self:
                return self._decompositions[func](*args, **kwargs)
        if not isinstance(func, OpOverload):
            raise NotRecordedError
        if func._schema.is_mutable:
            return self._write(func, args, kwargs)
        if torch.Tag.data_dependent_output in func.tags:
            raise NotRecordedError
        if func not in _SIZES and autograd_would_have_decomposed(
            func, pytree.arg_tree_leaves(*args, **kwargs)
        ):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if func is aten.detach.default:  # factory functions call it
            result = func(*args)
            self._unshared.discard(id(args[0]))
            self._nodes[id(result)] = result, self.node_of(args[0])
            return result
        node = self.graph.create_node(
            "call_function", func, map_aggregate(args, self.node_of), map_aggregate(kwargs, self.node_of)
        )
        result = computed(self._mode, func, args, kwargs)
        if any(argument.alias_info is not None for argument in func._schema.arguments):
            self._unshared.difference_update(map(id, pytree.arg_tree_leaves(*args, **kwargs)))
        elif isinstance(result, torch.Tensor):
            self._unshared.add(id(result))
        self._define(result, node)
        return result

    def _write(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Records a call that writes to a result of the trace as the call that computes its new value."""
        target = args[0]
        functional = getattr(getattr(aten, func._opname.removesuffix("_"), None), func._overloadname, None)
        if functional is None or not func._opname.endswith("_") or id(target) not in self._unshared:
            raise NotRecordedError
        node = self.graph.create_node(
            *("call_function", functional),
            *(map_aggregate(args, self.node_of), map_aggregate(kwargs, self.node_of)),
        )
        result = computed(self._mode, functional, args, kwargs)
        if (result.dtype, result.shape) != (target.dtype, target.shape):
            raise NotRecordedError
        node.meta["val"] = target
        self._nodes[id(target)] = target, node
        return target

    def _define(self, value: Any, node: Node) -> None:
        if isinstance(value, (tuple, list)):
            node.meta["val"] = value
            for index, each in enumerate(value):
                if isinstance(each, torch.Tensor):
                    self._define(each, self.graph.call_function(operator.getitem, (node, index)))
        elif isinstance(value, torch.Tensor):
            node.meta["val"] = value
            # a result that is an operand keeps its first node
            self._nodes.setdefault(id(value), (value, node))
