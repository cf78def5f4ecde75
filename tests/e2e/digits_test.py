# SPDX-License-Identifier: Apache-2.0
"""The built digit classifier on test images, compared with eager mode."""

from __future__ import annotations

import digits
import pytest
import torch
from built import Real, Simulated, calls, largest_difference
from dataset import Pictures, load_split

ACCURACY = 447 / 450
TOLERANCE = 5e-5  # of logits up to 16; found: 8e-6


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    return load_split()[1]


@pytest.fixture(scope="module")
def expected(pictures: Pictures) -> torch.Tensor:
    with torch.no_grad():
        return digits.build().module.eval()(pictures.pixels)


def accuracy(logits: torch.Tensor, pictures: Pictures) -> float:
    return float((logits.argmax(dim=1) == pictures.digits).double().mean())


def test_eager_accuracy(expected: torch.Tensor, pictures: Pictures) -> None:
    assert accuracy(expected, pictures) == pytest.approx(ACCURACY)


@pytest.mark.parametrize("name", ["portable", "mlx", "mps", "vulkan", "xnnpack"])
def test_accuracy_equals_eager_mode(name: str, expected: torch.Tensor, pictures: Pictures) -> None:
    path = f"examples/digits/digits_{name}.pte"
    program = Real(path) if name in ("portable", "xnnpack") else Simulated(path)
    logits = torch.cat([program(picture)[0] for picture in pictures.pixels.split(1)])
    assert accuracy(logits, pictures) == pytest.approx(ACCURACY)
    assert largest_difference([logits], [expected]) <= TOLERANCE


@pytest.mark.parametrize("name", ["portable", "mlx", "xnnpack"])
def test_any_batch_up_to_its_bound(name: str, expected: torch.Tensor, pictures: Pictures) -> None:
    """One program, calls with 64 images and a last one with 2."""
    path = f"examples/digits/digits_batch_{name}.pte"
    program = Simulated(path) if name == "mlx" else Real(path)
    logits = torch.cat([program(batch)[0] for batch in pictures.pixels.split(64)])
    assert largest_difference([logits], [expected]) <= TOLERANCE


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("mlx", "MLXBackend"),
        ("batch_mlx", "MLXBackend"),
        ("mps", "MPSBackend"),
        ("vulkan", "VulkanBackend"),
        ("xnnpack", "XnnpackBackend"),
    ],
)
def test_everything_is_one_delegate(name: str, backend: str) -> None:
    found = calls(f"examples/digits/digits_{name}.pte")
    assert (found.delegates, found.kernels) == ((backend,), ())
