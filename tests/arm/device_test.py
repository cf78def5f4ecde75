# SPDX-License-Identifier: Apache-2.0
"""VGF programs in the stock runtime: the results are those of eager mode and of the reference model."""

from __future__ import annotations

import io

import pytest
import torch

from delegatec.lowering import lower as lower_methods
from delegatec.program import ProgramOptions, write_program
from tests.arm.device import DeviceError, missing, run
from tests.arm.models import MODELS, eager, exported, integers, lower, segments

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no Vulkan device: {missing()}")


class Integers(torch.nn.Module):
    """Arithmetic of int32, whose results are exact."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns three results, one of which has no dimensions."""
        return (x + y) * x, torch.maximum(x, y).permute(1, 0), x.amax()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_results_are_those_of_eager_mode(name: str) -> None:
    model, args = MODELS[name]()
    wanted = eager(model, args)
    assert float(wanted[0].abs().max()) > 0.05
    for result, value in zip(run(lower(exported((model, args)), "vgf").pte, args), wanted, strict=True):
        torch.testing.assert_close(result, value, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_results_of_int8_are_those_of_eager_mode(name: str) -> None:
    program, args = integers(MODELS[name]())
    wanted = eager(program.module(), args)
    (found,) = run(lower(program, "vgf").pte, args)
    assert int(wanted[0].int().abs().max()) > 20
    assert torch.equal(found, wanted[0])


def test_images_are_channels_last_at_the_boundary() -> None:
    model, args = segments()
    (wanted,) = eager(model, args)
    assert float(wanted.abs().max()) > 0.05 and not wanted.is_contiguous()
    (found,) = run(lower(exported((model, args)), "vgf").pte, args)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=2e-6)
    assert found.stride() == wanted.stride()


def test_images_of_int8_are_channels_last_at_the_boundary() -> None:
    program, args = integers(segments())
    (wanted,) = eager(program.module(), args)
    (found,) = run(lower(program, "vgf").pte, args)
    assert int(wanted.int().abs().max()) > 20 and not args[0].is_contiguous()
    assert torch.equal(found, wanted) and found.stride() == wanted.stride()


class Both(torch.nn.Module):
    """An image for a delegate, and for kernels of the runtime."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the result of the model, and doubles, which TOSA lacks."""
        return self.model(x), x.double() + 1


@pytest.mark.parametrize("planned", [True, False])
def test_an_image_that_kernels_read_too(planned: bool) -> None:
    model, args = segments()
    both = Both(model)
    options = ProgramOptions(plan_inputs=planned, plan_outputs=planned)
    program = lower_methods({"forward": torch.export.export(both, args)}, "vgf", program_options=options)
    assert program.reports["forward"].nodes_left == 2
    file = io.BytesIO()
    write_program(program.emitted, file)
    for result, value in zip(run(file.getvalue(), args), eager(both, args), strict=True):
        torch.testing.assert_close(result, value, rtol=1e-5, atol=2e-6)
        assert result.stride() == value.stride()


def test_results_of_integers_are_equal() -> None:
    args = (torch.arange(-6, 6, dtype=torch.int32).reshape(3, 4), torch.full((3, 4), 2, dtype=torch.int32))
    model = Integers()
    results = run(lower(exported((model, args)), "vgf").pte, args)
    for result, value in zip(results, eager(model, args), strict=True):
        assert (result.dtype, result.shape) == (value.dtype, value.shape)
        assert torch.equal(result, value)


def test_a_damaged_program() -> None:
    with pytest.raises(DeviceError):
        run(b"no program" * 100, ())
