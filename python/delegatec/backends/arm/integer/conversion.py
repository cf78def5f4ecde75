# SPDX-License-Identifier: Apache-2.0
"""The state of a conversion to integers: the representation of each floating-point value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.arm.dialect import TOSA
from delegatec.backends.arm.integer.arithmetic import BITS, Arithmetic
from delegatec.backends.arm.integer.values import (
    Fixed,
    Floating,
    Quantity,
    Quantized,
    TableFunction,
    UnsupportedError,
)
from delegatec.edge.arguments import dtype_of
from delegatec.edge.legalize.value import aten
from delegatec.edge.quantization.operators import QUANTIZING
from delegatec.edge.quantization.scale import Quantization, quantization_of

MOVES: Final = frozenset(
    {
        aten.alias.default,
        aten.as_strided.default,
        aten.clone.default,
        aten.contiguous.default,
        aten.detach.default,
        aten.diagonal.default,
        aten.expand.default,
        aten.flip.default,
        aten.index.Tensor,
        aten.index_select.default,
        aten.gather.default,
        aten.lift_fresh_copy.default,
        aten.permute.default,
        aten.pixel_shuffle.default,
        aten.pixel_unshuffle.default,
        aten.repeat.default,
        aten.reshape.default,
        aten.reflection_pad1d.default,
        aten.reflection_pad2d.default,
        aten.reflection_pad3d.default,
        aten.replication_pad1d.default,
        aten.replication_pad2d.default,
        aten.replication_pad3d.default,
        aten.roll.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.transpose.int,
        aten.unfold.default,
        aten.unsqueeze.default,
        aten._upsample_nearest_exact1d.default,
        aten._upsample_nearest_exact1d.vec,
        aten._upsample_nearest_exact2d.default,
        aten._upsample_nearest_exact2d.vec,
        aten.upsample_nearest1d.default,
        aten.upsample_nearest1d.vec,
        aten.upsample_nearest2d.default,
        aten.upsample_nearest2d.vec,
        aten.view.default,
    }
)
"""Operators that move elements of their first operand."""

_CLAMPS: Final = frozenset({aten.relu.default, aten.hardtanh.default, aten.clamp.default})
_SPLITS: Final = frozenset({aten.split_with_sizes.default, aten.split.Tensor, aten.unbind.int})
_POOLS: Final = frozenset({aten.max_pool2d_with_indices.default, aten.max_pool2d.default})


_HEADROOM: Final = {torch.int8: 19, torch.int16: 11}
"""Fraction bits of quantized values that are added."""


class Conversion:
    """Representations of the values of a program.

    Args:
        arithmetic: creates calls.
        constants: returns the tensor of a constant node; None for other nodes.

    Attributes:
        quantities: floating-point value -> its representation.
        replaced: value of another dtype, such as the result of a quantization -> the node that computes it
            with integers.
        conditions: bool value that is a function of quantized values -> the table. It is computed only if
            something other than a table needs it.
        reasons: call that could not be converted -> why.
    """

    def __init__(self, arithmetic: Arithmetic, constants: Callable[[Node], Tensor | None]) -> None:
        self.arithmetic: Final = arithmetic
        self.constant: Final = constants
        self.quantities: dict[Node, Quantity | Floating] = {}
        self.replaced: dict[Node, Node] = {}
        self.conditions: dict[Node, TableFunction] = {}
        self.reasons: dict[Node, str] = {}

    def of(self, operand: Any) -> Quantity:
        """Returns the representation of an operand, with one exponent for all elements.

        Raises:
            UnsupportedError: it has none.
        """
        found = self.factor(operand)
        return self._settled(found) if isinstance(found, Floating) else found

    def factor(self, operand: Any) -> Quantity | Floating:
        """Returns the representation of an operand of a product.

        Raises:
            UnsupportedError: it has none.
        """
        if isinstance(operand, Node):
            found = self.quantities.get(operand) or self._integers(operand)
            if found is None:
                raise UnsupportedError(f"{operand.name} is not quantized")
            return found
        return Fixed(torch.tensor(operand, dtype=torch.float64))

    def _integers(self, operand: Node) -> Fixed | None:
        """Returns an integer constant, which operators promote."""
        constant = self.constant(operand)
        return None if constant is None else Fixed(constant.detach().to(torch.float64))

    def _settled(self, value: Floating) -> Quantized:
        arithmetic, bits = self.arithmetic, BITS - 16
        by = arithmetic.constant(torch.tensor(bits, dtype=torch.int32), len(value.shape))
        wide = arithmetic.once(TOSA.shift_left.default, (value.mantissa, by), torch.int32, value.shape)
        node = arithmetic.once(TOSA.shift_right.default, (wide, value.exponent), torch.int32, value.shape)
        return Quantized(node, (value.scale / (1 << bits),), 0, (1 << BITS) - 1)

    def node(self, operand: Any) -> Any:
        """Returns a non-floating-point operand, in the converted program."""
        if isinstance(operand, (list, tuple)):
            return [self.node(each) for each in operand]
        return self.replaced.get(operand, operand) if isinstance(operand, Node) else operand

    # ---- parameters --------------------------------------------------------------------------------------

    def target(self, node: Node, exact: bool = True) -> Quantization | None:
        """Returns the parameters with which a value is quantized after moves or clamps.

        Args:
            node: the value.
            exact: whether all of its users must quantize it so.
        """
        found: list[Quantization | None] = []
        pending, seen = [node], {node}
        while pending:
            for user in pending.pop().users:
                if user.target in QUANTIZING:
                    to = quantization_of(user, self.constant, signed=True)
                    found.append(to if to is not None and to.axis is None else None)
                elif user.target in MOVES | _CLAMPS | _SPLITS | _POOLS or _is_item(user):
                    if user not in seen:
                        seen.add(user)
                        pending.append(user)
                else:
                    found.append(None)
        if exact:
            return found[0] if found and all(each == found[0] for each in found) else None
        return next((each for each in found if each is not None), None)

    # ---- representations ---------------------------------------------------------------------------------

    def as_quantized(self, value: Quantity, node: Node) -> Quantized:
        """Returns a value as integers with one scale, and without limits: they can be moved.

        Args:
            value: the value.
            node: the node whose users may quantize it.
        """
        if isinstance(value, Quantized) and value.is_narrow:
            return value
        to = self.target(node)
        if to is not None:
            return self.quantized(value, to)
        if isinstance(value, Fixed):
            raise UnsupportedError("a constant without quantization parameters")
        return self.arithmetic.wide(value)

    def narrow(self, value: Quantity, node: Node) -> Quantized:
        """Returns a value as int8 or int16 quantized values; see `as_quantized`."""
        if isinstance(value, Quantized) and value.is_narrow:
            return value
        to = self.target(node, exact=False)
        if to is None or to.dtype == torch.int32:
            wide = self.arithmetic.wide_tables and not isinstance(value, TableFunction)
            to = _spanning(value, torch.int16 if wide else torch.int8)
        return self.quantized(value, to)

    def quantized(self, value: Quantity, to: Quantization) -> Quantized:
        """Returns a value in parameters of one scale."""
        node = self.arithmetic.quantize(value, to)
        limit = to.limit
        return Quantized(node, to.scales, to.zero_point, limit)

    def common_scale(self, values: Iterable[Quantity], terms: int = 1) -> float:
        """Returns a scale in which sums of values are exact, or precise to 28 bits."""
        several = list(values)
        scales = {each.scale for each in several if isinstance(each, Quantized)}
        if len(scales) == 1 and all(
            isinstance(each, Quantized)
            and each.axis is None
            and each.limit * terms < 1 << BITS
            and each.low == -math.inf == -each.high
            for each in several
        ):
            ((scale,),) = scales
            return scale
        found = [each for each in several if isinstance(each, Quantized)]
        if found and all(each.is_narrow for each in found):
            # a power of two for the largest scale: NPUs add quantized values of such scales at once
            scale = max(each.scale[0] for each in found) / (1 << _HEADROOM[found[0].dtype])
            if all(each.bound < scale * (1 << BITS) for each in several):
                return scale
        return (max(each.bound for each in several) * terms or 1.0) / ((1 << BITS) - 1)

    def moved(self, node: Node, quantized: Quantized, *args: Any, **kwargs: Any) -> Quantized:
        """Returns the result of a movement of integers."""
        value: Tensor = node.meta["val"]
        call = self.arithmetic.call
        result = call(node.target, *args, dtype=quantized.dtype, shape=value.shape, **kwargs)
        return Quantized(
            result,
            quantized.scale,
            quantized.zero,
            quantized.limit,
            None,
            low=quantized.low,
            high=quantized.high,
        )

    def integer(self, node: Node, args: Mapping[str, Any]) -> None:
        """Records a call with a non-floating-point result."""
        value: Tensor = node.meta["val"]
        self.replaced[node] = self.arithmetic.call(
            node.target, **args, dtype=dtype_of(node), shape=value.shape
        )


def _spanning(value: Quantity, dtype: torch.dtype) -> Quantization:
    """Returns parameters for all values."""
    limits = torch.iinfo(dtype)
    if isinstance(value, TableFunction):
        finite = value.values[value.values.isfinite()]
        least, most = (min(float(finite.min()), 0.0), max(float(finite.max()), 0.0))
        if dtype == torch.int8:
            scale = (most - least or 1.0) / 255
            zero = round(-128 - least / scale)
            return Quantization(dtype, (scale,), zero, -128, 127, nan=zero)
    return Quantization(dtype, ((value.bound or 1.0) / limits.max,), 0, -limits.max, limits.max)


def _is_item(node: Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem"


Convert = Callable[[Conversion, Node], Quantity | Floating | None]
"""Returns the representation of a call's result; None if it is recorded, or not floating point."""
