# SPDX-License-Identifier: Apache-2.0
"""The models of `examples` with their own weights: TOSA graphs in the reference model, VGF on a device."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

import minilm
import minilm_samples
import mobilenet_v2
import pytest
import torch

from delegatec.backends.arm.specification import TosaSpecification
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized
from tests.arm.device import missing
from tests.arm.device import run as run_on_device
from tests.arm.models import Sample, eager, exported, lower
from tests.arm.tosa_tools import check, run

ON_DEVICE: Final = pytest.mark.skipif(bool(missing()), reason=f"no Vulkan device: {missing()}")
MODELS: Final = {"minilm": minilm.build, "mobilenet_v2": mobilenet_v2.build}
# of vectors of length 1, and of logits up to 5
TOLERANCES: Final = {"minilm": 2e-6, "mobilenet_v2": 5e-5}


def _sample(name: str) -> Sample:
    torch.manual_seed(0)
    model = MODELS[name]()
    return model.module, model.example_inputs


def _sentences() -> Iterator[tuple[torch.Tensor, ...]]:
    """Yields three sentences, one of them short."""
    samples = list(minilm_samples.build())
    yield from (samples[0], samples[4], samples[10])


def _inputs(name: str, example: tuple[torch.Tensor, ...]) -> list[tuple[torch.Tensor, ...]]:
    return [*_sentences()] if name == "minilm" else [example]


@pytest.mark.parametrize("name", MODELS)
def test_results_in_the_reference_model(name: str) -> None:
    model, example = _sample(name)
    (graph,) = lower(exported((model, example)), "tosa", specification="TOSA-1.0+FP").blobs
    check(graph, TosaSpecification.parse("TOSA-1.0+FP"))
    for args in _inputs(name, example):
        (wanted,) = eager(model, args)
        (found,) = run(graph, [x.to(torch.int32) if x.dtype == torch.int64 else x for x in args], seconds=600)
        largest = float((found - wanted).abs().max())
        cosine = float(torch.cosine_similarity(found, wanted).min())
        print(f"{name}: largest difference {largest:.3g}, cosine {cosine:.9f}")
        assert float(wanted.abs().max()) > 0.1
        torch.testing.assert_close(found, wanted, rtol=0, atol=TOLERANCES[name])


@ON_DEVICE
@pytest.mark.parametrize("name", MODELS)
def test_results_on_a_device(name: str) -> None:
    model, example = _sample(name)
    program = lower(exported((model, example)), "vgf").pte
    for args in _inputs(name, example):
        (wanted,) = eager(model, args)
        (found,) = run_on_device(program, args)
        print(f"{name}: largest difference {float((found - wanted).abs().max()):.3g}")
        torch.testing.assert_close(found, wanted, rtol=0, atol=TOLERANCES[name])


@ON_DEVICE
def test_int8_on_a_device_is_as_in_the_reference_model() -> None:
    program = quantized(*_sample("mobilenet_v2"), Settings(quantize_io=True)).methods["forward"]
    assert program.example_inputs is not None
    args = program.example_inputs[0]
    (quantized_eagerly,) = eager(program.module(), args)
    (graph,) = lower(copy.deepcopy(program), "tosa", specification="TOSA-1.0+INT").blobs
    check(graph, TosaSpecification.parse("TOSA-1.0+INT"))
    (wanted,) = run(graph, args, seconds=600)
    (found,) = run_on_device(lower(program, "vgf").pte, args)
    assert torch.equal(found, wanted)
    differences = (found.int() - quantized_eagerly.int()).abs()
    mean = float(differences.float().mean())
    print(f"mobilenet_v2 int8: at most {int(differences.max())} steps, mean {mean:.2g}")
    assert int(quantized_eagerly.argmax()) == int(found.argmax())
