# SPDX-License-Identifier: Apache-2.0
"""Operators and values of a TOSA graph under construction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from delegatec_schemas import tosa_graph as schema
from delegatec_schemas.tosa_graph import DType, Op

from delegatec.backends.arm.dtypes import NAMES
from delegatec.delegation.protocol.parts import Part

OPERATORS: Final[Mapping[str, int]] = {
    name: value for name, value in vars(Op).items() if not name.startswith("_")
}
OPERATOR_NAMES: Final = {value: name for name, value in OPERATORS.items()}
_ATTRIBUTES: Final[Mapping[str, Any]] = {
    "ARGMAX": schema.ExtremumT,
    "AVG_POOL2D": schema.AveragePoolT,
    "CONV2D": schema.ConvolutionT,
    "CONV3D": schema.ConvolutionT,
    "DEPTHWISE_CONV2D": schema.ConvolutionT,
    "FFT2D": schema.TransformT,
    "MAX_POOL2D": schema.MaximumPoolT,
    "RFFT2D": schema.RealTransformT,
    "TRANSPOSE_CONV2D": schema.TransposedConvolutionT,
    "CLAMP": schema.ClampT,
    "ARITHMETIC_RIGHT_SHIFT": schema.ShiftT,
    "MAXIMUM": schema.NanT,
    "MINIMUM": schema.NanT,
    "REDUCE_ALL": schema.AxisT,
    "REDUCE_ANY": schema.AxisT,
    "REDUCE_MAX": schema.ExtremumT,
    "REDUCE_MIN": schema.ExtremumT,
    "REDUCE_PRODUCT": schema.AxisT,
    "REDUCE_SUM": schema.AxisT,
    "CONCAT": schema.AxisT,
    "REVERSE": schema.AxisT,
    "TRANSPOSE": schema.TransposeT,
    "RESIZE": schema.ResizeT,
    "RESCALE": schema.RescaleT,
    "CUSTOM": schema.CustomT,
    "COND_IF": schema.ConditionalT,
    "WHILE_LOOP": schema.LoopT,
    "MATMUL_T_BLOCK_SCALED": schema.BlockScaledT,
    "CAST_TO_BLOCK_SCALED": schema.BlockScaledT,
    "CONV2D_BLOCK_SCALED": schema.BlockScaledT,
}
RESULTS: Final = {"CAST_TO_BLOCK_SCALED": 2}
"""Operator -> result count; others have one."""
# The generated code has names in camel case.
_CAPITAL: Final = re.compile(r"_([a-z])")
_SNAKE: Final = re.compile(r"([A-Z])")


REGIONS: Final[Mapping[str, tuple[str, str]]] = {
    "COND_IF": ("then_graph", "else_graph"),
    "WHILE_LOOP": ("cond_graph", "body_graph"),
}
"""Operator of control flow -> its attributes that name regions."""


def text(name: bytes) -> str:
    """Returns a name of a file."""
    # Another encoding is not worth an error, and distinct names remain distinct.
    return name.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Value:
    """A tensor or a shape of a graph.

    Attributes:
        name: unique in the graph.
        dtype: of `DType`; SHAPE for a shape.
        shape: sizes; of a shape, its element count.
        part: the bytes of a constant; None for other values.
        elements: those of a small constant, if it was made from scalars.
        is_constant: whether it is a constant, also if its bytes are not known yet.
    """

    name: str
    dtype: int
    shape: tuple[int, ...]
    part: Part | None = field(default=None, compare=False, repr=False)
    elements: tuple[Any, ...] | None = field(default=None, compare=False)
    is_constant: bool = False

    @property
    def is_shape(self) -> bool:
        """Whether it is a shape operand."""
        return bool(self.dtype == DType.SHAPE)

    def __str__(self) -> str:
        """Returns type and sizes, such as `FP32[1, 8]`."""
        return f"{NAMES[self.dtype]}{list(self.shape)}"


@dataclass(frozen=True)
class Operation:
    """An operator of a graph.

    Attributes:
        name: in TOSA, such as "CONV2D".
        inputs: its operands.
        outputs: its results.
        attributes: name of each attribute in the schema, such as "nan_mode" -> value in its stored form.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Any]

    def packed(self) -> schema.OperatorT:
        """Returns the operator as the schema has it."""
        kind = OPERATORS[self.name]
        fields = {
            _CAPITAL.sub(lambda found: found[1].upper(), key): each for key, each in self.attributes.items()
        }
        attribute = _ATTRIBUTES.get(self.name, schema.NothingT)(**fields)
        inputs, outputs = ([value.name for value in values] for values in (self.inputs, self.outputs))
        return schema.OperatorT(kind, kind, attribute, inputs, outputs)

    @classmethod
    def unpacked(cls, operator: Any, values: Mapping[bytes, Value]) -> Operation:
        """Returns an operator of a checked graph.

        Args:
            operator: unpacked.
            values: of its block, by name.
        """
        fields = vars(operator.attribute).items()
        attributes = {
            _SNAKE.sub(lambda found: f"_{found[1].lower()}", key): text(each) if type(each) is bytes else each
            for key, each in fields
        }
        inputs, outputs = (
            tuple(values[name] for name in names) for names in (operator.inputs, operator.outputs)
        )
        return cls(OPERATOR_NAMES[operator.op], inputs, outputs, attributes)


def regions_of(operation: Operation) -> tuple[str, ...]:
    """Returns the names of the regions that an operator runs."""
    return tuple(operation.attributes[key] for key in REGIONS.get(operation.name, ()))
