# SPDX-License-Identifier: Apache-2.0
"""Check that the values that a graph describes are those that its operators compute.

A compiler trusts shapes and dtypes: with wrong ones it would emit programs that write out of bounds. Each
distinct call is computed once with fake tensors, which takes some milliseconds for a model. Symbolic sizes
take the values of the example inputs.
"""

from __future__ import annotations

import operator
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.fx import Graph, Node

from delegatec.edge.fakes import computed, estimated
from delegatec.frontend.pt2.fields import MalformedError, fail
from delegatec.frontend.pt2.operand_shapes import shape_problem
from delegatec.frontend.pt2.targets import is_symbolic

# Calls whose results the operands alone do not determine, or that need a kernel to run.
_UNDETERMINED: Final = (
    *(DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException),
    NotImplementedError,
)
_REJECTIONS: Final = (
    *(RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, AssertionError, AttributeError),
)
# A check in torch that is an error for an empty batch, as in `upsample_nearest2d`.
_IS_NOT_A_BOOL: Final = "cond must be a bool"
# Operators that change their operands' metadata, or whose results depend on their values.
_UNCHECKED: Final = frozenset(
    {torch.Tag.inplace_view, torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
)
# Its kernel for meta tensors accepts any mask.
_ATTENTION: Final = torch.ops.aten.scaled_dot_product_attention.default
_POWERS: Final = frozenset({operator.pow, operator.lshift, operator.rshift})
_SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)


class _UnknownError(Exception):
    """A value that is known only at run time."""


class Calls:
    """The distinct calls of a program whose results have been checked.

    Args:
        mode: the fake mode of the program's values.
    """

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._known: dict[Any, list[Any] | None] = {}

    def check(self, graph: Graph) -> None:
        """Checks the operators of a graph, without bodies; raises MalformedError for the first wrong one."""
        values: dict[Node, Any] = {}
        with torch.no_grad(), self._mode:
            for node in graph.nodes:
                if not _is_checked(node.op, node.target):
                    continue
                try:
                    stored = _forms(self._concrete(node.meta.get("val")))
                    operands = [self._of(operand, values) for operand in node.all_input_nodes]
                except _UnknownError:
                    continue
                forms = dict(zip(node.all_input_nodes, map(_operand, operands), strict=True))
                key = node.target, _key(node.args, forms), _key(node.kwargs, forms)
                if key not in self._known:
                    known = dict(zip(node.all_input_nodes, operands, strict=True))
                    self._known[key] = self._computed(node, known, stored)
                found = self._known[key]
                if found is not None and found[: len(stored)] != stored:
                    fail(f"the graph describes {node.name} as {_text(stored)}; it is {_text(found)}")

    def _computed(self, node: Node, operands: dict[Node, Any], stored: list[Any]) -> list[Any] | None:
        """Returns the forms of results; those of the kernel alone, which is faster, if they are as stored."""
        args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), operands.__getitem__)
        if problem := shape_problem(node.target, args, kwargs):
            fail(f"{node.target} rejects the operands of {node.name}: {problem}")
        if node.target is not _ATTENTION:
            found = _forms(estimated(self._mode, node.target, args, kwargs))
            if found and found[: len(stored)] == stored:
                return found
        try:
            return _forms(computed(self._mode, node.target, args, kwargs))
        except _UNDETERMINED:
            return None
        except _REJECTIONS as error:
            if _IS_NOT_A_BOOL in str(error):
                return None
            raise MalformedError(f"{node.target} rejects the operands of {node.name}: {error}") from error

    def _of(self, operand: Node, values: dict[Node, Any]) -> Any:
        if operand not in values:
            values[operand] = self._concrete(operand.meta.get("val"))
        return values[operand]

    def _concrete(self, value: Any) -> Any:
        """Returns a value with the sizes of the example inputs."""
        if isinstance(value, torch.Tensor):
            sizes, strides = value.shape, value.stride()
            if all(type(size) is int for part in (sizes, strides) for size in part):
                return value
            layout = [[self._concrete(size) for size in part] for part in (sizes, strides)]
            return FakeTensor(
                self._mode,
                torch.empty_strided(*layout, dtype=value.dtype, device="meta"),
                torch.device("cpu"),
            )
        if isinstance(value, _SYMBOLIC):
            if not value.node.has_hint():
                raise _UnknownError
            return value.node.hint
        if isinstance(value, (tuple, list)):
            return [self._concrete(each) for each in value]
        return value


def _is_checked(kind: str, target: Any) -> bool:
    if isinstance(target, OpOverload):
        return not _UNCHECKED.intersection(target.tags)
    return kind == "call_function" and is_symbolic(target) and target not in _POWERS


def _forms(value: Any) -> list[Any]:
    """Returns dtype and sizes of each tensor of a result, and the types of scalars."""
    if isinstance(value, (tuple, list)):
        return [form for each in value for form in _forms(each)]
    return [] if value is None else [_form(value)]


def _form(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape)
    return type(value), repr(value)


def _operand(value: Any) -> Any:
    return (*_form(value), value.stride()) if isinstance(value, torch.Tensor) else _form(value)


def _key(value: Any, forms: dict[Node, Any]) -> Any:
    """Returns a hashable form of arguments."""
    if isinstance(value, Node):
        return forms[value]
    if isinstance(value, dict):
        value = value.items()
    elif not isinstance(value, (tuple, list)):
        return type(value), repr(value)
    return tuple(_key(each, forms) for each in value)


def _text(forms: list[Any]) -> str:
    return ", ".join(f"{str(kind).removeprefix('torch.')}{detail}" for kind, detail in forms) or "empty"
