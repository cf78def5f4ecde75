# SPDX-License-Identifier: Apache-2.0
"""Conversion of a private program to integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.backends.arm.integer.arithmetic import Arithmetic
from delegatec.backends.arm.integer.choices import WITHOUT_BOOLS
from delegatec.backends.arm.integer.composites import COMPOSITES
from delegatec.backends.arm.integer.compositions import Compositions
from delegatec.backends.arm.integer.constants import evaluated, is_constant
from delegatec.backends.arm.integer.conversion import MOVES, Conversion, Convert
from delegatec.backends.arm.integer.elementwise import CHEAP, ELEMENTWISE
from delegatec.backends.arm.integer.features import ALL, Features
from delegatec.backends.arm.integer.from_integers import integer, is_mask, is_quantized_integer, mask
from delegatec.backends.arm.integer.functions import table_function, unary
from delegatec.backends.arm.integer.masks import promoted
from delegatec.backends.arm.integer.moves import MOVEMENTS
from delegatec.backends.arm.integer.products import PRODUCTS
from delegatec.backends.arm.integer.quantized_regions import is_bool, is_value
from delegatec.backends.arm.integer.reductions import REDUCTIONS
from delegatec.backends.arm.integer.selection import SELECTION
from delegatec.backends.arm.integer.steep import STEEP
from delegatec.backends.arm.integer.values import (
    Fixed,
    Floating,
    Quantity,
    Quantized,
    TableFunction,
    UnsupportedError,
)
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.control_flow import FORMS
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.constant import quantized_constant
from delegatec.edge.quantization.operators import DEQUANTIZING, QUANTIZING
from delegatec.edge.quantization.scale import quantization_of

aten = torch.ops.aten

_CONVERSIONS: Final[Mapping[Any, Convert]] = {
    **ELEMENTWISE,
    **STEEP,
    **SELECTION,
    **MOVEMENTS,
    **PRODUCTS,
    **REDUCTIONS,
    **COMPOSITES,
}


class Converter:
    """Converts a program, and keeps the calls that it replaces until `finish`.

    Calls that cannot be converted remain, with the reason in `Conversion.reasons`, and so do their
    dequantized operands.

    Args:
        program: edited in place.
        facts: analysis results for its values.
        features: of the target.
        skipped: calls that remain unchanged.

    Attributes:
        conversion: the representations of values.
        origins: new call -> the call of the program that it is for.
    """

    def __init__(
        self, program: EdgeProgram, facts: Facts, features: Features, skipped: Collection[Node] = ()
    ) -> None:
        self._program = program
        self._builder = Builder(program, facts)
        self._skipped = skipped
        self.conversion: Final = Conversion(Arithmetic(self._builder, features), facts.constant)
        self.origins: Final[dict[Node, Node]] = {}

    def run(self) -> None:
        """Creates the integer arithmetic."""
        nodes = [node for node in self._program.graph.nodes if node.op in ("placeholder", "call_function")]
        conversion = self.conversion
        compositions = Compositions(conversion)
        for node in nodes:
            if node.op == "placeholder":
                _add_constant(conversion, node)
            elif node not in self._skipped:
                self._replace(node, _convert)
                compositions.add(node)
        read: set[Node] = set()
        for node in reversed(conversion.conditions):
            if not all(_is_table(conversion, user) and user not in read for user in node.users):
                read.add(node)
                conversion.arithmetic.forget()
                self._replace(node, _compare)

    def _replace(self, node: Node, convert: Callable[[Conversion, Node], Any]) -> None:
        before = node.prev
        try:
            self._builder.at(node)
            convert(self.conversion, node)
        except UnsupportedError as error:
            self.conversion.reasons[node] = str(error)
        while before.next is not node:
            before = before.next
            if before.op == "call_function":
                self.origins[before] = node

    def used(self) -> list[Node]:
        """Returns the new calls that the results need, in no order."""
        found: dict[Node, None] = {}
        pending = list(self.conversion.replaced.values())
        while pending:
            node = pending.pop()
            if node in self.origins and node not in found:
                found[node] = None
                pending += node.all_input_nodes
        return list(found)

    def undo(self) -> None:
        """Erases the new calls."""
        for node in reversed(self.origins):
            if not node.users:
                self._program.graph.erase_node(node)
        self._program.erase_unused_placeholders()

    def finish(self) -> bool:
        """Erases the replaced calls; returns whether there are any."""
        if self.conversion.replaced:
            _redirect(self._program, self.conversion)
        self._program.graph.eliminate_dead_code()
        self._program.erase_unused_placeholders()
        return bool(self.conversion.replaced)


def converted(program: EdgeProgram, facts: Facts, features: Features = ALL) -> Conversion:
    """Replaces floating-point arithmetic between dequantization and quantization by integer arithmetic."""
    converter = Converter(program, facts, features)
    converter.run()
    converter.finish()
    return converter.conversion


def _add_constant(conversion: Conversion, node: Node) -> None:
    constant = conversion.constant(node)
    if constant is not None and constant.dtype.is_floating_point:
        conversion.quantities[node] = Fixed(constant.detach())


def _convert(conversion: Conversion, node: Node) -> None:
    if node.target in FORMS:
        if any(each in conversion.quantities for each in node.all_input_nodes):
            raise UnsupportedError("control flow exchanges values that it does not quantize alone")
    elif node.target in DEQUANTIZING:
        _dequantize(conversion, node)
    elif node.target in QUANTIZING:
        _quantize(conversion, node)
    elif is_quantized_integer(conversion, node):
        conversion.quantities[node] = integer(conversion, node)
    elif is_constant(conversion, node):
        conversion.quantities[node] = evaluated(conversion, node)
    elif not conversion.arithmetic.bools and any(map(is_bool, (node, *node.all_input_nodes))):
        _convert_mask(conversion, node)
    elif any(each in conversion.quantities for each in node.all_input_nodes):
        if node in conversion.quantities:
            return  # one of several results
        convert: Convert = CHEAP.get(node.target, _general)
        found = convert(conversion, node)
        if found is not None:
            conversion.quantities[node] = found
    elif any(each in conversion.conditions for each in node.all_input_nodes):
        found = _tabulated(conversion, node)
        if found is None and is_mask(node):
            found = mask(conversion, node)
        if found is not None:
            conversion.quantities[node] = found
    elif is_mask(node):
        conversion.quantities[node] = mask(conversion, node)
    elif any(each in conversion.replaced for each in node.all_input_nodes):
        _follow(conversion, node)


def _convert_mask(conversion: Conversion, node: Node) -> None:
    """Converts a call with bool operands or results, which the target lacks."""
    if node in conversion.quantities:
        return  # one of several results
    convert: Convert = WITHOUT_BOOLS.get(node.target, _general if is_value(node, bools=False) else promoted)
    found = (None if node.target in CHEAP else _tabulated(conversion, node)) or convert(conversion, node)
    if found is not None:
        conversion.quantities[node] = found


def _tabulated(conversion: Conversion, node: Node) -> TableFunction | None:
    found = table_function(conversion, node)
    if found is not None and found.values.dtype == torch.bool:
        if not conversion.arithmetic.bools:
            return TableFunction(found.source, found.values.to(torch.float64))
        conversion.conditions[node] = found
        return None
    return found


def _is_table(conversion: Conversion, node: Node) -> bool:
    return isinstance(conversion.quantities.get(node), TableFunction) or node in conversion.conditions


def _compare(conversion: Conversion, node: Node) -> None:
    """Computes a condition; operators on bools remain unchanged."""
    if not any(each in conversion.quantities for each in node.all_input_nodes):
        return
    convert = _CONVERSIONS.get(node.target)
    if convert is None:
        raise UnsupportedError("there is no integer arithmetic for this operator")
    convert(conversion, node)


def _general(conversion: Conversion, node: Node) -> Quantity | Floating | None:
    found = _tabulated(conversion, node)
    if found is not None or node in conversion.conditions:
        return found
    convert = _CONVERSIONS.get(node.target) or unary(node)
    if convert is None:
        raise UnsupportedError("there is no integer arithmetic for this operator")
    return convert(conversion, node)


def _follow(conversion: Conversion, node: Node) -> None:
    """Moves uint8 values as int8; dequantization has their parameters."""
    if node.target in MOVES and dtype_of(node) == torch.uint8:
        args, kwargs = map_arg((node.args, node.kwargs), conversion.node)
        shape = node.meta["val"].shape
        conversion.replaced[node] = conversion.arithmetic.call(
            node.target, *args, dtype=torch.int8, shape=shape, **kwargs
        )


def _dequantize(conversion: Conversion, node: Node) -> None:
    to = quantization_of(node, conversion.constant, signed=True)
    source = node.all_input_nodes[0]
    if conversion.constant(source) is not None:
        found = quantized_constant(node, conversion.constant)
        if found is None:
            raise UnsupportedError("quantization parameters that are not constant")
        conversion.quantities[node] = Fixed(found.dequantized, shape_of(node), to)
        return
    if to is None:
        raise UnsupportedError("quantization parameters that are not constant, or several zero points")
    quantized = conversion.arithmetic.signed(conversion.replaced.get(source, source))
    conversion.quantities[node] = Quantized(quantized, to.scales, to.zero_point, to.limit, to.axis)


def _quantize(conversion: Conversion, node: Node) -> None:
    source = node.all_input_nodes[0]
    value = conversion.of(source)
    to = quantization_of(node, conversion.constant, signed=True)
    if to is None:
        raise UnsupportedError("quantization parameters that are not constant, or several zero points")
    if isinstance(value, Fixed) and value.shape != tuple(node.meta["val"].shape):
        value = Fixed(value.values.broadcast_to(shape_of(node)))
    conversion.replaced[node] = conversion.arithmetic.quantize(value, to)


def _redirect(program: EdgeProgram, conversion: Conversion) -> None:
    for node, new in conversion.replaced.items():
        if dtype_of(node) == torch.uint8 and dtype_of(new) == torch.int8:
            users = [user for user in node.users if user.target not in DEQUANTIZING]
            if not users:
                continue
            conversion.arithmetic.builder.at(new.next)
            new = conversion.arithmetic.unsigned(new)
        node.replace_all_uses_with(new)
