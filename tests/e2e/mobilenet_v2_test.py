# SPDX-License-Identifier: Apache-2.0
"""The built MobileNetV2: the logits of eager mode, and one delegate."""

from __future__ import annotations

import mobilenet_v2
import pytest
import torch
from built import Real, Simulated, calls, largest_difference, manifest

# Of logits up to 5. Found: 9e-6; and 0.04 for float16, as in eager mode in float16.
TOLERANCE = {
    **dict.fromkeys(("portable", "mlx", "mps", "vulkan", "xnnpack"), 5e-5),
    **dict.fromkeys(("mlx_fp16", "mps_fp16", "vulkan_fp16", "xnnpack_fp16"), 0.08),
}
IN_RUNTIME = ("portable", "xnnpack", "xnnpack_fp16")


@pytest.fixture(scope="module")
def eager() -> torch.nn.Module:
    """The weights are random: the build drew them from the same seed."""
    torch.manual_seed(0)
    return mobilenet_v2.build().module.eval()


@pytest.mark.parametrize("name", TOLERANCE)
def test_logits_agree_with_eager_mode(name: str, eager: torch.nn.Module) -> None:
    path = f"examples/mobilenet_v2/mobilenet_v2_{name}.pte"
    program = Real(path) if name in IN_RUNTIME else Simulated(path)
    picture = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(7)) * 2 - 1
    with torch.no_grad():
        expected = eager(picture)
    assert largest_difference(program(picture), [expected]) <= TOLERANCE[name]


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("mlx", "MLXBackend"),
        ("mps", "MPSBackend"),
        ("vulkan", "VulkanBackend"),
        ("xnnpack", "XnnpackBackend"),
    ],
)
@pytest.mark.parametrize("precision", ["", "_fp16"])
def test_everything_is_one_delegate(name: str, backend: str, precision: str) -> None:
    found = calls(f"examples/mobilenet_v2/mobilenet_v2_{name}{precision}.pte")
    assert (found.delegates, found.kernels) == ((backend,), ())


def test_memory_plan_is_within_one_percent_of_its_lower_bound() -> None:
    plan = manifest("examples/mobilenet_v2/mobilenet_v2_portable.manifest.json")["methods"][0]["memory"]
    assert plan["lower_bound_bytes"] <= plan["arena_bytes"] <= 1.01 * plan["lower_bound_bytes"]
