# SPDX-License-Identifier: Apache-2.0
"""The peer's Vulkan test suite, lowered by us: results are those of eager mode, or a rejection has a reason.

A sample of it is lowered by the peer, too, and its blobs are run by our reference executor.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch.utils import _pytree as pytree

from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.verify.interpreter import Interpreter
from tests.peer.vulkan_lowering import PeerProgram
from tests.peer.vulkan_suite import VulkanCase, record_vulkan, vulkan_tests

# It needs another version of torchao.
_UNRECORDED: Final = {"test_vulkan_backend_torchao_8da4w_quantized_linear"}
_REJECTED: Final = {
    # inputs beyond the bounds of the exported program
    "test_vulkan_backend_avg_pool2d": "DC504",
    "test_vulkan_backend_max_pool2d": "DC504",
    # operators of the peer's own
    "test_vulkan_backend_conv_with_clamp": "DC201",
    "test_vulkan_backend_grid_priors": "DC201",
}
# Not delegated as a whole: dynamic sizes, integer quotients, powers of tensors, quantized convolutions.
_PARTLY_NAMES: Final = (
    "abs cat_channels_dynamic_shapes cat_width_dynamic_shapes clamp cos exp floor_div gelu hardshrink"
    " hardtanh linear neg partial_dynamic_shapes pow relu sigmoid sin sqrt sym_size_int tanh"
    " xnnpack_pt2e_quantized_conv_sequence xnnpack_pt2e_quantized_conv_sequence_all_reduced"
)
_PARTLY: Final = {
    "test_select_last_height_dynamic_shapes",
    *(f"test_vulkan_backend_{name}" for name in _PARTLY_NAMES.split()),
}
_NAMES: Final = [name for name in vulkan_tests() if name not in _UNRECORDED]
# By the peer, which takes seconds for some.
_SAMPLE_NAMES: Final = "add_int batch_norm conv2d_dw embedding_2d linear matmul permute_copy"
_SAMPLE: Final = [f"test_vulkan_backend_{name}" for name in _SAMPLE_NAMES.split()]


def _check(case: VulkanCase, number: int, results: Sequence[Any], relative: float, absolute: float) -> None:
    assert case.model is not None
    wanted = pytree.tree_leaves(case.model(*case.calls[number]))
    for result, value in list(zip(results, wanted, strict=True))[: case.outputs]:
        assert (result.shape, result.dtype) == (value.shape, value.dtype)
        torch.testing.assert_close(result, value, rtol=relative, atol=absolute, equal_nan=True)


def test_the_suite_is_complete() -> None:
    assert len(_NAMES) == 94
    assert _PARTLY | _REJECTED.keys() < set(_NAMES)


@pytest.mark.parametrize("name", _NAMES)
def test_results_are_those_of_eager_mode(name: str, tmp_path: Path) -> None:
    cases = record_vulkan(name)
    assert cases
    for case in cases:
        try:
            _lower_and_run(case, tmp_path / "model.pte", name)
        except DelegatecError as error:
            assert {problem.code for problem in error.diagnostics} == {_REJECTED.get(name)}, str(error)
        else:
            assert name not in _REJECTED


def _lower_and_run(case: VulkanCase, path: Path, name: str) -> None:
    lowered = lower({"forward": case.program}, "vulkan")
    (report,) = lowered.reports.values()
    rejections = [each for each in report.rejections if each.rule != "trivial"]
    assert all(each.message for each in rejections)
    assert name in _PARTLY | _REJECTED.keys() or (not rejections and len(report.delegates) <= 1)
    with path.open("wb") as file:
        write_program(lowered.emitted, file)
    program = read_program(path)
    method = program.method("forward")
    interpreter = Interpreter(method, builtin_backends(), named_data=program.named_bytes(), shared={})
    is_quantized = "quantized" in name
    for number, call in enumerate(case.calls):
        results = interpreter.run([_copy(each) for each in pytree.tree_leaves(call)])
        # Quantization has the tolerance of the test, as eager mode here is the model before it.
        relative, absolute = (case.relative, case.absolute) if is_quantized else (1e-5, 1e-5)
        _check(case, number, results, relative, absolute)


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", _SAMPLE)
def test_the_peers_blobs_run(name: str) -> None:
    for case in record_vulkan(name):
        program = PeerProgram(case.program)
        assert program.blobs
        for number, call in enumerate(case.calls[:1]):
            _check(case, number, program(*call), case.relative, case.absolute)
