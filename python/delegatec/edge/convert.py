# SPDX-License-Identifier: Apache-2.0
"""Conversion of exported programs to the edge program's normal form."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.arguments import check_items, check_types, wrong_argument
from delegatec.edge.adoption.weights import weight_problems
from delegatec.edge.complex import lower_complex
from delegatec.edge.control_flow import adopt_bodies, normalize_bodies
from delegatec.edge.copied_values import convert_copied_values
from delegatec.edge.exported_checks import exported_problems
from delegatec.edge.fakes import no_shortcuts
from delegatec.edge.float32_regions import float32_calls, mark
from delegatec.edge.functionalize import (
    functionalize,
    separate_carried_values,
    undeclared_views,
)
from delegatec.edge.handles import assign_handles, handles_by_name, inherit_handles
from delegatec.edge.legalize.guards import complete_symbols
from delegatec.edge.legalize.normal_form import decompose
from delegatec.edge.passes.constant_indices import resolve_constant_indices
from delegatec.edge.passes.constant_sizes import resolve_constant_sizes
from delegatec.edge.passes.eliminate_common import eliminate_common
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code, remove_assertions
from delegatec.edge.passes.empty_operands import remove_empty_operands
from delegatec.edge.passes.fold_batch_norm import fold_batch_norm
from delegatec.edge.passes.fold_casts import fold_casts
from delegatec.edge.passes.fold_constants import (
    fold_constants,
    fold_own_constants,
    fold_quantized_constants,
)
from delegatec.edge.passes.fold_padding import fold_padding
from delegatec.edge.passes.gather_rows_first import gather_rows_first
from delegatec.edge.passes.group_heads import group_heads
from delegatec.edge.passes.index_to_view import index_to_view
from delegatec.edge.passes.movement.cancel import cancel_permutations
from delegatec.edge.passes.movement.merge import merge_movements
from delegatec.edge.passes.neutral_operands import remove_neutral_operands
from delegatec.edge.passes.normalize_dequantization import normalize_dequantization
from delegatec.edge.passes.pass_manager import Pass, end_stage, run_pass, run_passes
from delegatec.edge.passes.raise_scalars import raise_scalars
from delegatec.edge.passes.remove_identities import remove_identities
from delegatec.edge.passes.select_by_value import select_by_value
from delegatec.edge.passes.simplify_calls import simplify_calls
from delegatec.edge.passes.sizes_of_inputs import take_sizes_of_inputs
from delegatec.edge.passes.widen_float8 import widen_float8
from delegatec.edge.program import CONSTANT_KINDS, EdgeProgram
from delegatec.edge.rejections import (
    dynamic_dimensions,
    functions,
    not_functional,
    reject_functions,
    reject_specialized,
    reject_writes,
)
from delegatec.edge.renormed_embeddings import renorm_embeddings
from delegatec.edge.scopes import inline_scopes
from delegatec.edge.source import location_of
from delegatec.edge.state import keep_state
from delegatec.edge.strides import drop_strides, record_dim_orders, reject_strides
from delegatec.edge.view_writes import functionalize_views, write_complete_operands

_SETS: Final = (set, frozenset, list, tuple)
# Key in the metadata of a graph module that `to_edge` has edited.
_CONVERTED: Final = "delegatec_converted"

# Passes before decomposition: fewer operators, and weights next to their uses.
_CLEAN: tuple[Pass, ...] = (
    remove_assertions,
    remove_identities,
    simplify_calls,
    resolve_constant_sizes,
    eliminate_dead_code,
)

# Passes that need constants come after folding. Casts come before it: constants of a floating-point type
# are not known to be integral.
SIMPLIFY: tuple[Pass, ...] = (
    remove_identities,
    take_sizes_of_inputs,
    select_by_value,
    group_heads,
    fold_casts,
    gather_rows_first,
    eliminate_common,
    fold_constants,
    remove_neutral_operands,
    remove_empty_operands,
    index_to_view,
    resolve_constant_indices,
    fold_padding,
    merge_movements,
    cancel_permutations,
    simplify_calls,
    eliminate_dead_code,
)


# Composite operators whose kernels are better than their decompositions: a matrix product would transpose the
# weight of `linear` in each run; the others would write the tensor once per operator.
KERNEL_COMPOSITES = frozenset(
    {
        torch.ops.aten._native_batch_norm_legit.no_stats,
        torch.ops.aten.linear.default,
        torch.ops.aten.native_group_norm.default,
        torch.ops.aten.pixel_unshuffle.default,
        torch.ops.aten.roll.default,
        torch.ops.aten.select_scatter.default,
        torch.ops.aten.var.correction,
        torch.ops.aten.var.dim,
        torch.ops.aten.var_mean.correction,
    }
)


def to_edge(
    exported: ExportedProgram,
    *,
    method: str = "forward",
    preserve: Collection[OpOverload] = (),
    passes: Sequence[Pass] = SIMPLIFY,
    state: Collection[str] = (),
    kept: Collection[str] = (),
) -> EdgeProgram:
    """Converts an exported program to normal form.

    Args:
        exported: the result of torch.export.export; its graph is edited, so do not use it afterwards.
        method: the name of the method in the program file.
        preserve: composite operators to keep, because a backend or a kernel supports them.
        passes: simplifications of the program in normal form.
        state: fully qualified names of buffers that other methods of the model write to.
        kept: fully qualified names of weights that must not be replaced by weights derived from them.

    Returns:
        The edge program; its constants are the exported program's own tensors.

    Raises:
        DelegatecError: DC205 for unsupported weights, inputs, outputs, sizes and strides; DC206 for
            unsupported control flow, DC208 for bodies that write to values outside of them; DC118 and DC125
            for calls that are only meaningful in training, or that eager mode rejects; DC415 for an argument
            that is not an exported program, or was converted before.
    """
    if not isinstance(exported, ExportedProgram):
        help = "pass one of its methods" if isinstance(exported, Mapping) else "export it first"
        raise wrong_argument(
            "delegatec.to_edge", "exported", exported, "a torch.export.ExportedProgram", help
        )
    check_types("delegatec.to_edge", {"method": (method, str, "the name of a method")})
    for name, names in (("state", state), ("kept", kept)):
        check_items("delegatec.to_edge", name, names, _SETS, str, "a set of names")
    check_items(
        "delegatec.to_edge", "preserve", preserve, _SETS, OpOverload, "a set of overloads of operators"
    )
    if problems := weight_problems({method: exported}):
        raise DelegatecError(problems)
    _take_over(exported)
    complete_symbols(exported)
    renorm_embeddings(exported, kept)
    origins = assign_handles(exported.graph_module)
    in_float32 = {node.meta["debug_handle"] for node in float32_calls(exported.graph)}
    inlined = inline_scopes(exported.graph_module)
    program = _adopt(exported, method)
    reject_strides(program)
    dynamic = dynamic_dimensions(program)
    for each in program.walk():
        write_complete_operands(each)
    functional = [functionalize(each) or functionalize_views(each) for each in program.walk()]
    if not all((inlined, *functional)) or functions(program):
        reject_writes(program)
        for each in program.walk():
            convert_copied_values(each)
            separate_carried_values(each)
        program = _retrace(exported, program, len(origins))
    reject_functions(program)
    mark(program.graph.nodes, in_float32)
    for each in program.walk():
        each.origins = origins
    keep_state(program, state)
    normalize_bodies(program)
    for each in list(program.walk()):
        for clean in _CLEAN:
            clean(each)
    for each in program.walk():
        _locate(each)
        drop_strides(each)
        # The verifier can run only from here on.
        run_pass(each, partial(lower_complex, origins=origins))
        run_pass(each, fold_quantized_constants)
        run_pass(each, normalize_dequantization)
        run_pass(each, raise_scalars)
        run_pass(each, partial(decompose, preserve=preserve))
        run_pass(each, widen_float8)
    run_passes(program, passes)
    if passes:
        run_pass(program, partial(fold_batch_norm, kept=kept))
        run_pass(program, partial(fold_own_constants, kept=kept))
    reject_specialized(program, dynamic)
    end_stage("to_edge", program)
    return program


def _take_over(exported: ExportedProgram) -> None:
    """Checks the graph, and that it is not the result of an earlier conversion."""
    if problems := conversion_problems(exported) or exported_problems(exported):
        raise DelegatecError(problems)
    exported.graph_module.meta[_CONVERTED] = True


def conversion_problems(exported: ExportedProgram) -> list[Diagnostic]:
    """Returns a problem (DC415) if an earlier conversion edited the program, and no problem otherwise."""
    if not exported.graph_module.meta.get(_CONVERTED):
        return []
    message = "the exported program was lowered before, and lowering edits it"
    help = "export it again, or lower copy.deepcopy(exported)"
    return [Diagnostic("DC415", message, expected="a new exported program", help=help)]


def _retrace(exported: ExportedProgram, before: EdgeProgram, last: int) -> EdgeProgram:
    """Functionalizes the program by torch, which retraces it; debug handles are kept."""
    origins = {each.method: each.graph for each in before.walk()}
    decomposed = undeclared_views(node for each in before.walk() for node in each.graph.nodes)
    try:
        with no_shortcuts():
            functional = exported.run_decompositions(decomposed)
    except (RuntimeError, TypeError, ValueError, LookupError, AssertionError) as error:
        raise DelegatecError([not_functional(error, before)]) from error
    # A write to an input lets torch ask whether its elements share memory, and a size of 1 is then excluded.
    complete_symbols(functional)
    program = _adopt(functional, before.method)
    for each in program.walk():
        origin = origins.get(each.method, before.graph)
        last = inherit_handles(each.graph, handles_by_name(origin), id(origin), last)
    return program


def _adopt(exported: ExportedProgram, method: str) -> EdgeProgram:
    _name_like_nodes(exported)
    signature = exported.graph_signature
    in_spec, out_spec = exported.call_spec.in_spec, exported.call_spec.out_spec
    assert in_spec is not None and out_spec is not None
    rejected = [
        spec for spec in signature.input_specs if spec.kind in (InputKind.CUSTOM_OBJ, InputKind.TOKEN)
    ]
    if rejected:
        raise DelegatecError(
            Diagnostic(
                "DC205",
                f"{spec.arg.name} is a {spec.kind.name.lower().replace('_', ' ')}",
                expected="tensors and scalars",
                help="remove the custom object, or the operator with side effects, from the exported method",
            )
            for spec in rejected
        )
    program = EdgeProgram(
        method=method,
        graph_module=exported.graph_module,
        input_specs=list(signature.input_specs),
        output_specs=list(signature.output_specs),
        constants={
            spec.arg.name: _constant(exported, spec.target)
            for spec in signature.input_specs
            if spec.kind in CONSTANT_KINDS
        },
        range_constraints=dict(exported.range_constraints),
        in_spec=in_spec,
        out_spec=out_spec,
    )
    adopt_bodies(program)
    record_dim_orders(program)
    return program


def _name_like_nodes(exported: ExportedProgram) -> None:
    """Renames inputs of the signature like their nodes: copy.deepcopy renames nodes such as "input"."""
    signature, nodes = exported.graph_signature, exported.graph.find_nodes(op="placeholder")
    for spec, node in zip(list(signature.input_specs), nodes, strict=True):
        old = spec.arg.name
        if old != node.name:
            signature.replace_all_uses(old, node.name)
            for result in signature.output_specs:
                if result.kind is OutputKind.USER_INPUT_MUTATION and result.target == old:
                    result.target = node.name


def _constant(exported: ExportedProgram, target: str | None) -> torch.Tensor:
    assert target is not None
    value: Any = exported.state_dict.get(target)
    if value is None:
        value = exported.constants[target]
    # a conjugated or negated view has the bytes of its base
    tensor: torch.Tensor = value.detach().resolve_conj().resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def _locate(program: EdgeProgram) -> None:
    for node in program.graph.nodes:
        node.meta["source"] = location_of(node.meta.get("stack_trace"))
