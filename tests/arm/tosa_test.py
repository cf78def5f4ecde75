# SPDX-License-Identifier: Apache-2.0
"""Graphs of models in Arm's reference model and validator."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.arm.blob import read_blob
from delegatec.backends.arm.capabilities.testing import SPECIFICATION, blob
from delegatec.backends.arm.capabilities.testing.cases import CASES
from delegatec.backends.arm.specification import TosaSpecification
from delegatec.delegation.protocol.parts import join
from delegatec.edge.testing.networks import NETWORKS
from delegatec.program import ProgramOptions
from tests.arm.models import MODELS, Branches, Lowered, eager, exported, integers, lower, segments
from tests.arm.tosa_tools import InvalidGraphError, check, run

FLOATING = TosaSpecification.parse("TOSA-1.0+FP")
INTEGER = TosaSpecification.parse("TOSA-1.0+INT")


@pytest.fixture(scope="module", params=sorted(MODELS))
def lowered(request: pytest.FixtureRequest) -> tuple[str, Lowered]:
    return request.param, lower(exported(MODELS[request.param]()), "tosa")


def test_the_validator_accepts_graphs(lowered: tuple[str, Lowered]) -> None:
    for graph in lowered[1].blobs:
        check(graph, FLOATING)


def test_results_in_the_reference_model(lowered: tuple[str, Lowered]) -> None:
    name, compiled = lowered
    (graph,) = compiled.blobs
    model, args = MODELS[name]()
    wanted = eager(model, args)
    found = run(graph, args)
    assert float(wanted[0].abs().max()) > 0.05
    for result, value in zip(found, wanted, strict=True):
        torch.testing.assert_close(result.reshape(value.shape), value, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_results_of_int8_are_those_of_eager_mode(name: str) -> None:
    program, args = integers(MODELS[name]())
    wanted = eager(program.module(), args)
    (graph,) = lower(program, "tosa", specification="TOSA-1.0+INT").blobs
    check(graph, INTEGER)
    (found,) = run(graph, args)
    assert found.dtype == torch.int8
    assert int(wanted[0].int().abs().max()) > 20
    assert torch.equal(found, wanted[0])


@pytest.mark.parametrize("is_integer", [False, True])
def test_images_are_channels_last_at_the_boundary(is_integer: bool) -> None:
    sample = segments()
    program, args = integers(sample) if is_integer else (exported(sample), sample[1])
    (wanted,) = eager(program.module(), args)
    (graph,) = lower(program, "tosa").blobs
    check(graph, INTEGER if is_integer else FLOATING)
    assert "TRANSPOSE" not in {operation.name for operation in read_blob(memoryview(graph)).operations}
    (found,) = run(graph, [args[0].permute(0, 2, 3, 1)])
    torch.testing.assert_close(found.permute(0, 3, 1, 2), wanted, rtol=1e-5, atol=2e-6)


def test_small_results_have_all_digits() -> None:
    # the model's hyperbolic tangent loses them
    model, args = torch.nn.Mish(), (torch.tensor([-16.0, -12.9, -7.9, -3.0, 0.5]),)
    (graph,) = lower(exported((model, args)), "tosa", specification="TOSA-1.0+FP").blobs
    (found,) = run(graph, args)
    torch.testing.assert_close(found, model(*args), rtol=2e-6, atol=0)


def test_integers_far_beyond_the_range_of_the_result() -> None:
    # RESCALE defines results of small values only if the factor is large
    class Amplified(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            ops, limits = torch.ops.quantized_decomposed, (-32767, 32767, torch.int16)
            value = ops.dequantize_per_tensor.default(x, 1.0, 0, *limits)
            result: torch.Tensor = ops.quantize_per_tensor.default(value, 2.0**-17, 0, *limits)
            return result

    model, args = Amplified(), (torch.tensor([-32767, -4097, -1, 0, 1, 4096, 32767], dtype=torch.int16),)
    (graph,) = lower(exported((model, args)), "tosa", specification="TOSA-1.0+INT+int16").blobs
    (found,) = run(graph, args)
    assert torch.equal(found, model(*args))


@pytest.mark.parametrize("sign", [1, -1])
def test_control_flow(sign: int) -> None:
    torch.manual_seed(0)
    args = (torch.rand(1, 3, 6, 6) * sign,)
    model = Branches().eval()
    (graph,) = lower(exported((model, args)), "tosa", specification="TOSA-1.0+FP+cf").blobs
    check(graph, TosaSpecification.parse("TOSA-1.0+FP+cf"))
    for result, value in zip(run(graph, args), eager(model, args), strict=True):
        torch.testing.assert_close(result.reshape(value.shape), value, rtol=1e-5, atol=2e-6)


# Transpositions that remain: results that are rows of positions, heads, and blocks of pixels.
LEFT = {"anchors": 2, "attention": 4, "detector": 1, "pixel shuffle": 1}


@pytest.mark.parametrize("name", [name for name, (_, inputs, _) in NETWORKS.items() if inputs().dim() == 4])
def test_networks_of_channels_last_images(name: str) -> None:
    torch.manual_seed(0)
    network, inputs, _ = NETWORKS[name]
    sample = network().eval(), (inputs(),)
    options = ProgramOptions(channels_last_inputs=True, channels_last_outputs=True)
    (graph,) = lower(exported(sample), "tosa", options).blobs
    operations = [operation.name for operation in read_blob(memoryview(graph)).operations]
    assert operations.count("TRANSPOSE") == LEFT.get(name, 0)
    check(graph, FLOATING)
    (wanted,) = eager(*sample)
    (found,) = run(graph, [sample[1][0].permute(0, 2, 3, 1)])
    found = found.permute(0, 3, 1, 2) if wanted.dim() == 4 else found
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_the_validator_sees_the_profile(lowered: tuple[str, Lowered]) -> None:
    with pytest.raises(InvalidGraphError, match="pro_fp"):
        check(lowered[1].blobs[0], INTEGER)


def test_the_reference_model_rejects_other_inputs(lowered: tuple[str, Lowered]) -> None:
    with pytest.raises(InvalidGraphError):
        run(lowered[1].blobs[0], [torch.zeros(7)])
    with pytest.raises(InvalidGraphError):
        run(lowered[1].blobs[0][:200], [torch.zeros(7)])


def _one_of_each() -> list[object]:
    kinds = {}
    for case in CASES:
        if case.verdicts[1] == "yes" and "[] " not in f"{case} ":
            kinds.setdefault(case.name, case)
    return list(kinds.values())


@pytest.mark.parametrize("case", _one_of_each(), ids=str)
def test_operators_of_integers_are_valid(case: object) -> None:
    check(join(blob(case)), SPECIFICATION)  # type: ignore[arg-type]
