# SPDX-License-Identifier: Apache-2.0
"""The built quantized models: the results of eager mode, one delegate, and their sizes."""

from __future__ import annotations

from collections.abc import Callable

import llama_8da4w
import mobilenet_v2_int8
import pytest
import torch
from built import Real, Simulated, built, calls, largest_difference

from delegatec import Model

QUANTIZED = "examples/quantized"
# Programs with delegates -> id of the backend.
DELEGATED = {
    "llama_8da4w_mps": "MPSBackend",
    "llama_8da4w_vulkan": "VulkanBackend",
    "mobilenet_v2_int8_mps": "MPSBackend",
}
# Model -> how it is built, tolerance, file of the float model, share of its size. Where an activation is
# halfway between two levels, it may become either of them. Found: 0.02 of logits up to 1.3, and 0.16 of 5,
# where eager mode with and without oneDNN differs by 0.13.
MODELS: dict[str, tuple[Callable[[], Model], float, str, float]] = {
    "llama_8da4w": (llama_8da4w.build, 0.06, f"{QUANTIZED}/llama_float_portable.pte", 0.2),
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
    delegated = [Simulated(f"{QUANTIZED}/{each}.pte") for each in DELEGATED if each.startswith(name)]
    for program in (Real(f"{QUANTIZED}/{name}_portable.pte"), *delegated):
        assert largest_difference(program(*model.example_inputs), [expected]) <= tolerance


@pytest.mark.parametrize(("name", "backend"), DELEGATED.items())
def test_everything_is_one_delegate(name: str, backend: str) -> None:
    found = calls(f"{QUANTIZED}/{name}.pte")
    assert (found.delegates, found.kernels) == ((backend,), ())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("backend", ["portable", "mps"])
def test_files_are_small(name: str, backend: str) -> None:
    _, _, full, share = MODELS[name]
    size = built(f"{QUANTIZED}/{name}_{backend}.pte").stat().st_size
    assert size <= share * built(full).stat().st_size
