# SPDX-License-Identifier: Apache-2.0
"""The partitioner: calls that quantize are supported together with their consumers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.common.legality import Legality, Prepare
from delegatec.backends.common.partitioner import TablePartitioner
from delegatec.backends.common.settings import Precision
from delegatec.backends.xnnpack.compile_spec import Recurrent, Settings
from delegatec.backends.xnnpack.indices import computes_indices
from delegatec.backends.xnnpack.nan import decides, nan_test, selects_nan
from delegatec.backends.xnnpack.operators.rewrites.byte_inputs import is_of_bytes, reads_one_scale
from delegatec.backends.xnnpack.operators.rules import MOST_RANK
from delegatec.backends.xnnpack.quantized.bounds import is_wide
from delegatec.backends.xnnpack.quantized.dynamic_quantization import (
    DynamicQuantization,
    dynamic_quantizations,
)
from delegatec.backends.xnnpack.quantized.products import Product, products
from delegatec.backends.xnnpack.quantized.scales import scale_of
from delegatec.backends.xnnpack.quantized.weights import is_weight
from delegatec.backends.xnnpack.target import XnnpackTarget
from delegatec.delegation import Partitioning, Rejection
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.analysis.nonfinite import Specials
from delegatec.edge.arguments import bind
from delegatec.edge.control_flow import SCAN, bodies_of
from delegatec.edge.passes.attend_to_filled_rows import attend_to_filled_rows
from delegatec.edge.passes.convert_inputs_first import convert_inputs_first
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.passes.quantize_outside_views import quantize_outside_views
from delegatec.edge.passes.sizes_of_operands import depends_on_data, take_sizes_of_operands
from delegatec.edge.passes.split_cached_attention import split_cached_attention
from delegatec.edge.passes.unflatten_bmm import unflatten_bmm
from delegatec.edge.passes.unflatten_linear import unflatten_linear
from delegatec.edge.passes.unroll_scans import is_quantized
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import (
    DEQUANTIZE,
    DEQUANTIZE_BLOCKS,
    DYNAMIC,
    QUANTIZE,
    QUANTIZING,
    operands_of,
)
from delegatec.edge.recurrent_loops import RECURRENT, loop_recurrent_layers
from delegatec.edge.symbols import is_scalar

aten = torch.ops.aten

_HELP = (
    "quantize the layers' weights without zero points: to int8 with a scale per output channel, or to "
    "int4, which may have groups of a multiple of 32 inputs"
)

_INDICES = "integer index arithmetic stays on the CPU: XNNPACK computes in floating point only"

_DECIDES = "it computes a condition, and comparisons in the delegate depend on the CPU for NaN"

_LOOP = "a recurrent layer of a long sequence is a loop that calls a delegate for each time step"

_UNROLL = 'for one delegate, which needs more memory, set recurrent = "unrolled"'

_RECURRENT: Final = frozenset(map(str, RECURRENT))

_READ = "a size that the program reads from a tensor: XNNPACK has tensors as inputs only"

# Half of a second-level cache of today's CPUs: more copies of a weight are read from main memory in each run.
_MOST_COPIED: Final = 512 * 1024

_WIDE = "values of more than 8 bits must be quantized and dequantized in the same delegate"


class XnnpackLegality(Legality[Settings]):
    """Legality of the calls of one program.

    Args:
        target: the backend.
        prepare: passes over a private program that run before legalization.
        program: the program.
        fused: its calls that are parts of layers with quantized operands.
    """

    def __init__(
        self,
        target: XnnpackTarget,
        prepare: Sequence[Prepare],
        program: EdgeProgram,
        fused: Sequence[DynamicQuantization | Product],
    ) -> None:
        super().__init__(target, prepare)
        self._calls = {call for each in fused for call in each.calls}
        facts = Facts(program.fixed_constants())
        self._constant, self._specials = facts.constant, Specials(facts)

    def constant_operands(self, program: EdgeProgram, node: Node) -> Sequence[Node]:
        """See `Legality.constant_operands`."""
        return [each for each in node.all_input_nodes if is_weight(each, self._constant)]

    def rejection(self, program: EdgeProgram, node: Node) -> Rejection | None:
        """See `Legality.rejection`."""
        if node in self._calls or is_weight(node, self._constant):
            return None
        if node.target in DYNAMIC and not _dequantizes_table(node):
            message = "a dynamically quantized value that is not only read by layers with quantized weights"
            return Rejection(node, "dynamic-quantization", message, _HELP)
        if any(is_scalar(each) and depends_on_data(each) for each in node.all_input_nodes):
            return Rejection(node, "dynamic-shape", _READ, "compute the size from the shape of a tensor")
        if node.target is SCAN and _is_recurrent(program, node):
            return Rejection(node, "control-flow", _LOOP, _UNROLL)
        reason = nan_test(node) or selects_nan(node, self._specials)
        if reason is not None:
            return Rejection(node, "argument", reason)
        if decides(node, program.is_body):
            return Rejection(node, "argument", _DECIDES)
        return super().rejection(program, node)


def _is_recurrent(program: EdgeProgram, scan: Node) -> bool:
    """Whether a scan is a recurrent layer, in float or quantized."""
    origin = program.origins.get(scan.meta.get("debug_handle", 0))
    is_float = origin is not None and origin.operator in _RECURRENT
    return is_float or any(map(is_quantized, bodies_of(program, scan)))


def _dequantizes_table(node: Node) -> bool:
    """Whether a call dequantizes values that no call of the program quantizes, such as rows of a table."""
    if node.target is not DEQUANTIZE_BLOCKS:
        return False
    source = operands_of(node).x
    while source.target not in QUANTIZING and source.all_input_nodes:
        source = source.all_input_nodes[0]
    return source.target not in QUANTIZING


class XnnpackPartitioner(TablePartitioner[Settings]):
    """Supports quantized values where the delegate knows their scales.

    Its preparation restricts attention to the filled rows of long caches, and makes attention to short ones
    independent of the writes to them, which XNNPACK lacks. Recurrent layers become loops, as each call of a
    matrix product has its own packed weights. It keeps dynamic sizes in separate dimensions, and converts
    bytes before they are moved.
    """

    # The program that is partitioned, and `fused_of` it.
    _partitioned: tuple[EdgeProgram, Sequence[DynamicQuantization | Product]] | None = None

    def partition(self, program: EdgeProgram) -> Partitioning:
        """See `Partitioner.partition`, in which the program does not change."""
        self._partitioned = program, fused_of(program)
        try:
            return super().partition(program)
        finally:
            self._partitioned = None

    def _fused(self, program: EdgeProgram) -> Sequence[DynamicQuantization | Product]:
        if self._partitioned is not None and self._partitioned[0] is program:
            return self._partitioned[1]
        return fused_of(program)

    @property
    def preparation(self) -> Sequence[Pass]:
        """See `Partitioner.preparation`."""
        is_narrowed = self._target.settings.precision is Precision.FP16
        attend = partial(attend_to_filled_rows, is_narrowed=True) if is_narrowed else attend_to_filled_rows
        layers = partial(loop_recurrent_layers, most_copied=self.most_copied)
        attention = (layers, attend, split_cached_attention)
        sizes = (quantize_outside_views, unflatten_linear, unflatten_bmm, take_sizes_of_operands)
        return (*attention, *sizes, convert_inputs_first, *super().preparation)

    @property
    def most_rank(self) -> int:
        """See `TablePartitioner.most_rank`."""
        return MOST_RANK

    @property
    def most_copied(self) -> int | None:
        """See `TablePartitioner.most_copied`."""
        return _MOST_COPIED if self._target.settings.recurrent is Recurrent.LOOP else None

    def legality(self, program: EdgeProgram) -> Legality[Settings]:
        """See `TablePartitioner.legality`."""
        assert isinstance(self._target, XnnpackTarget)
        return XnnpackLegality(self._target, self._prepare, program, self._fused(program))

    def misplaced(self, program: EdgeProgram, nodes: Sequence[Node]) -> Sequence[Rejection]:
        """See `Partitioner.misplaced`. A value has one scale, and its layers' delegate quantizes it."""
        members, constants = {*nodes}, program.fixed_constants()
        if computes_indices(nodes, constants):
            return [Rejection(node, "boundary", _INDICES) for node in nodes]
        found: dict[Node, Rejection] = {}
        for each in self._fused(program):
            calls = [call for call in each.calls if call in members]
            layers = each.result.users if isinstance(each, DynamicQuantization) else ()
            if calls and not members.issuperset((*each.calls, *layers)):
                message = "it is part of a layer that is not in the same delegate"
                found.update((call, Rejection(call, "boundary", message)) for call in calls)
        for node in nodes:
            if is_wide(node):
                others = [bind(node)["input"]] if node.target is DEQUANTIZE else node.users
                if not members.issuperset(others):
                    found[node] = Rejection(node, "boundary", _WIDE)
            elif (
                node.target is DEQUANTIZE
                and bind(node)["input"].name not in constants
                and not _has_one_scale(bind(node)["input"])
            ):
                found[node] = Rejection(node, "boundary", "its users dequantize it with different scales")
            elif is_of_bytes(node) and not reads_one_scale(node):
                message = "its operand is also quantized with another scale"
                found[node] = Rejection(node, "boundary", message)
            elif node.target is aten.prelu.default and not members.issuperset(_calls(bind(node)["weight"])):
                # A constant, but an input of this delegate: the same bytes have another scale as well.
                found[node] = Rejection(node, "boundary", "its slope is not in the same delegate")
        for node in nodes:
            # Alone, its dequantized values would be stored as float32 and returned unchanged.
            is_constant = node.target is DEQUANTIZE and bind(node)["input"].name in constants
            if is_constant and members.isdisjoint(node.users):
                found[node] = Rejection(
                    node, "boundary", "its dequantized value has no user in this delegate"
                )
        return list(found.values())


def _calls(value: Node) -> Iterator[Node]:
    """Yields the calls that compute a value."""
    if value.op == "call_function":
        yield value
        for each in value.all_input_nodes:
            yield from _calls(each)


def _has_one_scale(quantized_values: Node) -> bool:
    """Whether all producers and consumers of quantized values have the same scale."""
    scales = {
        scale_of(each)
        for each in (quantized_values, *quantized_values.users)
        if each.target in (QUANTIZE, DEQUANTIZE)
    }
    return len(scales) == 1


def fused_of(program: EdgeProgram) -> list[DynamicQuantization | Product]:
    """Returns the calls of a program that are parts of layers with quantized operands."""
    constant = Facts(program.fixed_constants()).constant
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    return [*dynamic_quantizations(nodes, constant), *products(nodes, constant)]
