# SPDX-License-Identifier: Apache-2.0
"""Arguments of kernels as values of a program, by schema type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.program.emitted import ListValue
from delegatec.program.method_values import MethodValues
from delegatec.program.scalar_type import SCALAR_TYPES

# Kernels support two memory formats; for a tensor without strides, preserve_format has no effect.
_MEMORY_FORMATS: Final = {torch.contiguous_format: 0, torch.preserve_format: 1}


class ArgumentError(Exception):
    """An argument that a program cannot represent."""


@dataclass(frozen=True)
class Parameter:
    """An argument of a kernel's schema.

    Attributes:
        name: its name.
        kind: its type, None apart.
        count: the length of a list for which the schema accepts one element; 0 for any other type.
    """

    name: str
    kind: str
    count: int


@cache
def parameters(kernel: OpOverload) -> tuple[Parameter, ...]:
    """Returns the arguments of a kernel, in order."""
    return tuple(map(_parameter, kernel._schema.arguments))


def _parameter(argument: Any) -> Parameter:
    kind = str(argument.type)
    if kind.startswith("Optional["):
        kind = kind.removeprefix("Optional[").removesuffix("]")
    return Parameter(argument.name, kind, argument.N or 0)


class ArgumentLowering:
    """Turns the arguments of calls into indices of values.

    Args:
        values: the method's values, which are extended.
        tensor: returns the value index of a node.
        scalar_tensor: returns the value index of a 0-d constant tensor, from a scalar and a dtype.
    """

    def __init__(
        self,
        values: MethodValues,
        tensor: Callable[[Node], int],
        scalar_tensor: Callable[[Any, torch.dtype], int],
    ) -> None:
        self._values = values
        self._tensor = tensor
        self._scalar_tensor = scalar_tensor

    def lower(self, parameter: Parameter, value: Any, operand_dtype: torch.dtype) -> int:
        """Returns the index of the value for one argument.

        Args:
            parameter: the argument in the kernel's schema.
            value: its value in the call: a node, a constant, or a list of these.
            operand_dtype: dtype of the call's first tensor, and of a scalar that replaces a tensor.

        Raises:
            ArgumentError: a program cannot represent it.
        """
        kind = parameter.kind
        if value is None:
            return self._values.intern(None)
        if isinstance(value, Node):
            return self._tensor(value)
        if kind == "Tensor":
            return self._scalar_tensor(value, _wrapped_dtype(value, operand_dtype))
        if isinstance(value, (tuple, list)) or kind.startswith("List["):
            return self._list(parameter, value)
        return self._scalar(kind, value)

    def _scalar(self, kind: str, value: Any) -> int:
        if isinstance(value, torch.dtype):
            return self._values.intern(SCALAR_TYPES[value])
        if isinstance(value, torch.memory_format):
            if value not in _MEMORY_FORMATS:
                raise ArgumentError(f"memory format {value}")
            return self._values.intern(_MEMORY_FORMATS[value])
        if isinstance(value, torch.layout):
            return self._values.intern(0)
        if isinstance(value, torch.device):
            return self._values.intern(None)
        if kind == "float" and isinstance(value, int):
            return self._values.intern(float(value))
        if isinstance(value, (bool, int, float, str)):
            return self._values.intern(value)
        raise ArgumentError(f"{value!r} for {kind}")

    def _list(self, parameter: Parameter, value: Any) -> int:
        item = parameter.kind.removeprefix("List[").removesuffix("]")
        if not isinstance(value, (tuple, list)):
            # the schema's int[2] accepts one integer for both
            value = [value] * (parameter.count or 1)
        if item in ("Tensor", "Optional[Tensor]"):
            optional = item != "Tensor"
            indices = tuple(-1 if element is None else self._tensor(element) for element in value)
            return self._values.intern(ListValue("OptionalTensorList" if optional else "TensorList", indices))
        if item == "int" or item == "SymInt":
            return self._values.int_list(
                [self._tensor(e) if isinstance(e, Node) else self._values.intern(int(e)) for e in value]
            )
        if item == "float":
            return self._values.intern(ListValue("DoubleList", tuple(float(e) for e in value)))
        if item == "bool":
            return self._values.intern(ListValue("BoolList", tuple(bool(e) for e in value)))
        raise ArgumentError(f"a list {value!r} for {parameter.kind}")


def _wrapped_dtype(scalar: Any, operand_dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype of a scalar next to a tensor: the tensor's, unless the scalar is of a wider kind."""
    if isinstance(scalar, bool):
        return operand_dtype
    if isinstance(scalar, int):
        return torch.int64 if operand_dtype is torch.bool else operand_dtype
    return operand_dtype if operand_dtype.is_floating_point else torch.float32
