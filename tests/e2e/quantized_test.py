# SPDX-License-Identifier: Apache-2.0
"""The built quantized models: the results of eager mode, one delegate, and their sizes."""

from __future__ import annotations

from collections.abc import Callable

import llama
import mobilenet_v2_int8
import pytest
import torch
from built import Real, Simulated, built, calls, largest_difference
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerAxis, PerGroup

from delegatec import Model

QUANTIZED = "examples/quantized"
IN_RUNTIME = ("portable", "xnnpack")
# The int8 embedding: rows of the table, and their scales.
_EMBEDDING = ("aten::index_select.out", "aten::index_select.out")
# Programs with a delegate -> id of the backend, and the kernels outside.
DELEGATED: dict[str, tuple[str, tuple[str, ...]]] = {
    "llama_8da4w_mlx": ("MLXBackend", ()),
    "llama_8da4w_mps": ("MPSBackend", ()),
    "llama_8da4w_vulkan": ("VulkanBackend", ()),
    "llama_8da4w_xnnpack": ("XnnpackBackend", _EMBEDDING),
    "mobilenet_v2_int8_mlx": ("MLXBackend", ()),
    "mobilenet_v2_int8_mps": ("MPSBackend", ()),
    "mobilenet_v2_int8_xnnpack": ("XnnpackBackend", ()),
}


def llama_8da4w() -> Model:
    """The Llama, quantized by torchao's `quantize_` instead of `quantized_program`."""
    model = llama.build()
    linear = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=getattr(torch, "int4"),  # noqa: B009 - torch does not declare it
        weight_granularity=PerGroup(32),
    )
    quantize_(model.module, linear)
    embedding = IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0))
    quantize_(model.module, embedding, lambda module, name: isinstance(module, torch.nn.Embedding))
    return model


# Model -> how it is built, tolerance, file of the float model, share of its size. An activation halfway
# between two quantized values may become either of them. Found: 0.02 of logits up to 1.3, and 0.16 of 5,
# where eager mode with and without oneDNN differs by 0.13.
MODELS: dict[str, tuple[Callable[[], Model], float, str, float]] = {
    "llama_8da4w": (llama_8da4w, 0.06, f"{QUANTIZED}/llama_float_portable.pte", 0.2),
    "mobilenet_v2_int8": (
        *(mobilenet_v2_int8.build, 0.4),
        *("examples/mobilenet_v2/mobilenet_v2_portable.pte", 0.27),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_results_agree_with_eager_mode(name: str) -> None:
    build, tolerance, *_ = MODELS[name]
    torch.manual_seed(0)
    model = build()
    with torch.no_grad():
        expected = model.module(*model.example_inputs)
    assert expected.abs().max() > 1
    for backend in ("portable", "xnnpack", "mlx", "mps", "vulkan"):
        file = f"{name}_{backend}"
        if backend not in IN_RUNTIME and file not in DELEGATED:
            continue
        program = (Real if backend in IN_RUNTIME else Simulated)(f"{QUANTIZED}/{file}.pte")
        assert largest_difference(program(*model.example_inputs), [expected]) <= tolerance


@pytest.mark.parametrize("name", DELEGATED)
def test_it_is_one_delegate(name: str) -> None:
    backend, kernels = DELEGATED[name]
    found = calls(f"{QUANTIZED}/{name}.pte")
    assert (found.delegates, tuple(sorted(found.kernels))) == ((backend,), kernels)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("backend", ["portable", "mlx", "mps", "xnnpack"])
def test_files_are_small(name: str, backend: str) -> None:
    _, _, full, share = MODELS[name]
    if (name, backend) == ("mobilenet_v2_int8", "xnnpack"):
        share = 0.38  # layers before sums have float results, so float weights
    size = built(f"{QUANTIZED}/{name}_{backend}.pte").stat().st_size
    assert size <= share * built(full).stat().st_size
