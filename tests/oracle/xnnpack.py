# SPDX-License-Identifier: Apache-2.0
"""Programs of the XNNPACK backend in the stock runtime, compared with eager mode."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from delegatec.backends.xnnpack.testing.grid import operations
from delegatec.delegation import DelegationReport
from delegatec.lowering import lower
from delegatec.program import write_program
from tests.oracle.oracle import OracleProgram, mapped


def run_in_runtime(
    module: torch.nn.Module,
    calls: Sequence[tuple[Any, ...]],
    dynamic_shapes: Any = None,
    options: Mapping[str, str] | None = None,
    rtol: float = 2e-5,
    atol: float = 2e-6,
) -> DelegationReport:
    """Lowers a module, runs it in the stock runtime, and compares with eager mode.

    The smallest inputs come first, and again in their place: the runtime plans memory at the first run.

    Args:
        module: the module.
        calls: example inputs, those of each run; the first are exported.
        dynamic_shapes: of `torch.export`.
        options: of the backend.
        rtol: relative tolerance.
        atol: absolute tolerance.

    Returns:
        What was delegated.
    """
    report, program = lowered_program(module, calls[0], dynamic_shapes, options)
    smallest = min(calls, key=lambda call: sum(tensor.numel() for tensor in pytree.tree_leaves(call)))
    for call in (smallest, *calls):
        with torch.no_grad():
            wanted = pytree.tree_leaves(module(*call))
        results = program.run(pytree.tree_leaves(call))
        for result, value in zip(results, wanted, strict=True):
            assert (result.dtype, result.shape) == (value.dtype, value.shape)
            torch.testing.assert_close(result, value, rtol=rtol, atol=atol, equal_nan=True)
    return report


def lowered_program(
    module: torch.nn.Module,
    inputs: tuple[Any, ...],
    dynamic_shapes: Any = None,
    options: Mapping[str, str] | None = None,
) -> tuple[DelegationReport, OracleProgram]:
    """Lowers a module and loads it into the stock runtime.

    Args:
        module: the module.
        inputs: example inputs.
        dynamic_shapes: of `torch.export`.
        options: of the backend.

    Returns:
        What was delegated, and the program.
    """
    return lowered_exported(
        torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes), options
    )


def lowered_exported(
    exported: torch.export.ExportedProgram, options: Mapping[str, str] | None = None
) -> tuple[DelegationReport, OracleProgram]:
    """Lowers an exported program and loads it into the stock runtime."""
    lowered = lower({"forward": exported}, "xnnpack", options)
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    return lowered.reports["forward"], mapped(file.getvalue())


def floats(*shape: int, seed: int = 0) -> torch.Tensor:
    """Returns float32 values of a normal distribution with a deviation of 2."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 2


def assert_quantized_close(found: torch.Tensor, wanted: torch.Tensor, scale: float, share: float) -> None:
    """Checks that results differ by at most one scale, and in at most a share of the elements."""
    off = ((found - wanted) / scale).abs().round()
    assert off.max() <= 1, f"{off.max()} scales"
    assert (off > 0).float().mean() <= share


def run(module: torch.nn.Module, *inputs: torch.Tensor) -> tuple[list[str], torch.Tensor, torch.Tensor]:
    """Returns the operations of the only delegate, and the results of the runtime and of eager mode."""
    report, program = lowered_program(module, inputs)
    assert (len(report.delegates), report.rejections) == (1, [])
    (found,) = program.run(inputs)
    return operations(report.delegates[0].module.blob_bytes()), found, module(*inputs)
