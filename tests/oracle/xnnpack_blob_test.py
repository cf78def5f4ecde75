# SPDX-License-Identifier: Apache-2.0
"""The reference executor has the results of the stock runtime: every operation, and combination of types."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.xnnpack.testing.reference.cases import Case
from delegatec.backends.xnnpack.testing.reference.table import CASES
from tests.oracle.oracle import OracleProgram
from tests.oracle.xnnpack_blob import program_of, run_in_runtime


@pytest.mark.parametrize("operation", sorted({case.operation for case in CASES}))
def test_results_of_the_runtime(operation: str) -> None:
    wrong = {}
    for case in CASES:
        problem = difference(case) if case.operation == operation else ""
        if problem:
            wrong[case.name] = problem
    assert wrong == {}


def difference(case: Case) -> str:
    """Returns the difference in the runtime, or nothing."""
    wanted = case.run()
    blob = case.blob()
    try:
        found = run_in_runtime(blob.data(), blob.named, case.inputs, wanted)
    except RuntimeError as error:
        return "" if case.optional else str(error)
    try:
        for result, value in zip(found, wanted, strict=True):
            assert_close(result, value, case.tolerance)
    except AssertionError as error:
        return str(error)
    return ""


def assert_close(result: torch.Tensor, value: torch.Tensor, tolerance: float) -> None:
    """Checks dtype, shape and values; a tolerance of floats is relative to the largest value."""
    assert (result.dtype, result.shape) == (value.dtype, value.shape)
    exact, ours = result.double(), value.double()
    allowed = tolerance * exact.abs().max() if result.is_floating_point() else tolerance
    assert float((exact - ours).abs().max()) <= allowed


_RESIZED = (
    *(
        "Add-same-f32",
        "Sigmoid-i8",
        "Copy-f16",
        "Reshape[3, 0, 1, 1, 2, 1]-f32",
        "Transpose-i8",
        "Slice[0, 0, 1][0, 0, 3]-f32",
    ),
    *(
        "Concatenate2-1-f32",
        "ConstantPad0.0-f32",
        "Softmax-float32-3",
        "FullyConnected-float32-float32-2-bias",
    ),
    *(
        "FullyConnected-dynamic-float32-channels-2-bias",
        "Convolution-pads-f32-f32-f32",
        "Convolution-pads-channels",
    ),
    *("DepthwiseConvolution-pads-i8", "TransposedConvolution-adjusted-f32-f32-f32", "MaxPooling-pads-i8"),
    *("AveragePooling-same-f32", "GlobalAveragePooling-64-4-i8", "ResizeBilinear-0-13-f32"),
    "BatchMatrixMultiply-float32-plain",
)


@pytest.mark.parametrize("name", _RESIZED)
def test_sizes_follow_from_the_inputs(name: str) -> None:
    """The first or second dimension of the inputs is smaller in some of the runs of one program."""
    case = next(case for case in CASES if case.name == name)
    blob = case.blob()
    program = OracleProgram(program_of(blob.data(), blob.named, case.inputs, case.run(), dynamic=True))
    executor = case.executor()
    # products of matrices share the second dimension
    dim = 0 if "Matrix" in name or case.inputs[0].dim() < 3 or "Reshape" in name else 1
    largest = case.inputs[0].shape[dim]
    for size in (largest, max(1, largest - 2), largest, max(1, largest - 1)):
        inputs = [value.narrow(dim, 0, min(size, value.shape[dim])).contiguous() for value in case.inputs]
        for result, value in zip(program.run(inputs), executor(inputs), strict=True):
            assert_close(result, value, case.tolerance)
