# SPDX-License-Identifier: Apache-2.0
"""Each kernel that has a functional overload is found, with the schema that emission relies on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch._ops import OpOverload

from delegatec.edge.kernels import KERNELS
from delegatec.edge.out_variants import VIEW_COPIES, kernel_name, out_arguments, out_variant

aten = torch.ops.aten

# Kernels of aten without a functional overload, and the reason.
UNREACHABLE = {
    "aten::_native_batch_norm_legit.out": "writes to the running mean and variance",
    "aten::_local_scalar_dense": "a number read off a tensor",
    "aten::copy_": "written by the emitter for mutable buffers",
    "aten::index_put_": "in place",
    "aten::split_copy.Tensor_out": "a list of results, which are slices here",
    "aten::split_with_sizes_copy.out": "a list of results, which are slices here",
    "aten::unbind_copy.int_out": "a list of results, which are selected here",
    "aten::sym_numel": "symbolic",
    "aten::sym_size.int": "symbolic",
}


def _functional_overloads() -> Iterator[OpOverload]:
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if namespace == "aten":
            operator: OpOverload = getattr(getattr(aten, packet), overload or "default")
            if not operator._schema.is_mutable:
                yield operator


FOUND = {operator: out for operator in _functional_overloads() if (out := out_variant(operator)) is not None}


def test_every_kernel_of_aten_is_reached() -> None:
    reached = {kernel_name(out) for out in FOUND.values()}
    wanted = {kernel for kernel in KERNELS if kernel.startswith("aten::")}
    assert wanted - reached == UNREACHABLE.keys()
    assert len(wanted) == 210


def test_kernels_are_the_240_of_the_runtime() -> None:
    assert len(KERNELS) == 240


@pytest.mark.parametrize("operator", FOUND, ids=str)
def test_schemas_match(operator: OpOverload) -> None:
    out = FOUND[operator]
    assert kernel_name(out) in KERNELS
    assert out._schema.is_mutable
    own = {argument.name: str(argument.type) for argument in operator._schema.arguments}
    inputs = [argument for argument in out._schema.arguments if not argument.is_out]
    # the emitter binds by name
    assert all(own[argument.name] == str(argument.type) for argument in inputs)
    left = own.keys() - {argument.name for argument in inputs}
    assert left <= {"dtype", "layout", "device", "pin_memory"}
    assert len(out_arguments(out)) == len(operator._schema.returns)
    # arguments that are written to come last, so that results follow them
    flags = [argument.is_out for argument in out._schema.arguments]
    assert flags == sorted(flags)


@pytest.mark.parametrize("view", VIEW_COPIES, ids=str)
def test_views_are_copied(view: OpOverload) -> None:
    assert view._schema.returns[0].alias_info is not None
    assert not VIEW_COPIES[view]._schema.is_mutable and "_copy" in VIEW_COPIES[view]._opname
    out = out_variant(view)
    assert out is not None and out._opname == VIEW_COPIES[view]._opname


def test_operators_without_a_kernel() -> None:
    for operator in (
        aten.sort.default,
        aten.relu_.default,
        aten.add.out,
        aten.conv2d.default,
        len,
        "aten::add",
    ):
        assert out_variant(operator) is None


def test_several_results() -> None:
    out = out_variant(aten.native_layer_norm.default)
    assert out is not None and out_arguments(out) == ["out0", "out1", "out2"]
    assert kernel_name(aten.topk.values) == "aten::topk.values"
    assert kernel_name(aten._local_scalar_dense.default) == "aten::_local_scalar_dense"
