# SPDX-License-Identifier: Apache-2.0
"""Complete models in both precisions, float16 conversion, and the positions of casts."""

from __future__ import annotations

import pytest
import torch
from delegatec_schemas.mps_graph import LayerNormT
from torch import nn
from torch.nn import functional as F  # noqa: N812

from delegatec.backends import builtin_backends
from delegatec.backends.common.constants import FLOAT16_LEAST, FLOAT16_MAX
from delegatec.backends.common.testing import eager
from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.dtypes import FROM_FORMAT
from delegatec.backends.mps.testing import compile_module, operations
from delegatec.delegation import CompileSpec, ComputedBytes, to_backend
from delegatec.delegation.protocol.parts import join
from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge


class Attention(nn.Module):
    """Scaled dot product attention with a boolean mask of padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.layer(self.embed(ids), src_key_padding_mask=ids == 0)
        return hidden.mean(1)


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
        nn.Softmax(-1),
    )


MODELS = {
    "convolutional": (convolutional, (torch.rand(2, 1, 8, 8),)),
    "attention": (Attention, (torch.tensor([[3, 4, 5, 0, 0], [1, 2, 3, 4, 5]]),)),
    "gated": (
        lambda: nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.LayerNorm(8), nn.GLU()),
        (torch.rand(3, 6),),
    ),
}


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, precision: str) -> None:
    torch.manual_seed(0)
    build, args = MODELS[name]
    module = build()
    compiled = compile_module(module, args, precision)
    assert [(r.operator, r.rule, r.message) for r in compiled.report.rejections if r.rule != "trivial"] == []
    assert len(compiled.delegates) == 1
    tolerance = {"fp32": 1e-5, "fp16": 2e-2}[precision]
    for result, wanted in zip(compiled(*args), eager(module, args), strict=True):
        torch.testing.assert_close(result, wanted, rtol=tolerance, atol=tolerance)


def test_fp16_casts_at_the_border_and_around_means_and_halves_the_constants() -> None:
    x = torch.rand(1, 1, 8, 8)
    full, half = (compile_module(convolutional(), (x,), p).blobs()[0] for p in ("fp32", "fp16"))
    inside = " ".join(operations(full)).replace("Mean", "Cast Mean Cast")
    assert operations(half) == ["Cast", *inside.split(), "Cast"]
    graph = read_blob(memoryview(half)).graph
    types = [FROM_FORMAT[value.datatype] for value in graph.mpsValues]
    assert {types[id] for id in graph.inputIds + graph.outputIds} == {torch.float32}
    assert {types[id] for id in graph.constantIds} == {torch.float16}
    assert types.count(torch.float32) == 4


class Mixed(nn.Module):
    """Inputs and outputs of several dtypes; one float32 is read by several operations."""

    def forward(
        self, x: torch.Tensor, n: torch.Tensor, mask: torch.Tensor, half: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return x.exp() + x, n + 1, ~mask, half * half, x * 2.0


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_only_float32_is_cast_and_once(precision: str) -> None:
    args = (torch.rand(4), torch.arange(4), torch.arange(4) > 2, torch.rand(4).half())
    compiled = compile_module(Mixed(), args, precision)
    (blob,) = compiled.blobs()
    graph = read_blob(memoryview(blob)).graph
    types = [FROM_FORMAT[value.datatype] for value in graph.mpsValues]
    assert [types[id] for id in graph.inputIds] == [value.dtype for value in args]
    assert [types[id] for id in graph.outputIds] == [value.dtype for value in eager(Mixed(), args)]
    # x is cast once, and two float32 results are cast back.
    assert operations(blob).count("Cast") == {"fp32": 0, "fp16": 3}[precision]
    for result, wanted in zip(compiled(*args), eager(Mixed(), args), strict=True):
        torch.testing.assert_close(result, wanted, rtol=2e-3, atol=2e-3)


def test_inputs_have_the_first_ids() -> None:
    class Three(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            return (c + 1.0) * b - a

    args = (torch.rand(2), torch.rand(2), torch.rand(2))
    graph = read_blob(memoryview(compile_module(Three(), args).blobs()[0])).graph
    assert graph.inputIds == [0, 1, 2]
    assert len({*graph.inputIds, *graph.constantIds, *graph.outputIds}) == 3 + 1 + 1


def test_an_output_that_is_an_input_or_another_output_is_copied() -> None:
    class Same(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x.exp()
            return y, y.view(2, 2).view(4), y * 2.0

    for precision in ("fp32", "fp16"):
        x = torch.rand(4)
        compiled = compile_module(Same(), (x,), precision)
        for blob in compiled.blobs():
            graph = read_blob(memoryview(blob)).graph
            assert len(set(graph.outputIds)) == len(graph.outputIds)
            assert not set(graph.outputIds) & set(graph.inputIds)
        for result, wanted in zip(compiled(x), eager(Same(), (x,)), strict=True):
            torch.testing.assert_close(result, wanted, rtol=1e-3, atol=1e-3)


def test_every_weight_beyond_float16_is_named_at_once() -> None:
    module = nn.Sequential(nn.Linear(2, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 2))
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        parameters["2.weight"][0, 1] = -1e6
        parameters["4.bias"].fill_(7e4)
    with pytest.raises(DelegatecError) as error:
        compile_module(module, (torch.rand(1, 2),), "fp16", [torch.ops.aten.linear.default])
    messages = [(d.code, d.message) for d in error.value.diagnostics]
    assert messages == [
        ("DC406", "parameter 2.weight has 1 value beyond float16 (+-65504), the largest -1e+06"),
        ("DC406", "parameter 4.bias has 2 values beyond float16 (+-65504), the largest 70000"),
    ]
    assert compile_module(module, (torch.rand(1, 2),), "fp32").delegates


def test_rearranged_weights_beyond_float16_have_their_names() -> None:
    module = nn.ConvTranspose2d(2, 3, 2, 2)
    with torch.no_grad():
        module.weight[0, 1, 0, 1] = 1e6
    with pytest.raises(DelegatecError) as error:
        compile_module(module, (torch.rand(1, 2, 3, 3),), "fp16")
    assert [d.message for d in error.value.diagnostics] == [
        "parameter weight has 1 value beyond float16 (+-65504), the largest 1e+06"
    ]


def test_scalars_beyond_float16_are_named() -> None:
    class Large(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.pad(x * 1e6, (1, 0), value=2e5)

    with pytest.raises(DelegatecError) as error:
        compile_module(Large(), (torch.rand(2),), "fp16")
    assert [d.message for d in error.value.diagnostics] == [
        "the scalar 1000000.0 has 1 value beyond float16 (+-65504), the largest 1e+06",
        "the scalar 200000.0 is beyond float16",
    ]


def test_scalars_beyond_float16_in_a_model_of_float16_are_named() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 1e6 + x * 3e4

    with pytest.raises(DelegatecError) as error:
        compile_module(Scaled(), (torch.rand(2).half(),), "fp32")
    assert [d.message for d in error.value.diagnostics] == ["the scalar 1000000.0 is beyond float16"]


def test_scalars_beyond_float16_saturate_on_request() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([1.0, -7e4, float("inf")]))

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return F.pad(x.masked_fill(mask, -1e9) * self.weight.minimum(x), (1, 0), value=2e5)

    x, mask = torch.tensor([1.0, 0.5, 2.0]), torch.tensor([False, True, False])
    with pytest.raises(DelegatecError):
        compile_module(Masked(), (x, mask), "fp16")
    (result,) = compile_module(Masked(), (x, mask), "fp16", fp16_overflow="saturate")(x, mask)
    assert result.tolist() == [FLOAT16_MAX, 1.0, float("inf"), 4.0]


def test_compile_specs_are_checked() -> None:
    program = to_edge(torch.export.export(nn.ReLU(), (torch.rand(2),)))
    wrong = [CompileSpec("use_fp16", b""), CompileSpec("fp16", b"\1"), CompileSpec("int4", b"packed")]
    with pytest.raises(
        DelegatecError, match=r"(?s)use_fp16.*b''.*unknown compile spec of MPSBackend: 'fp16'"
    ) as error:
        to_backend("MPSBackend", program, wrong, registry=builtin_backends())
    assert len(error.value.diagnostics) == 2


def test_nothing_of_a_large_weight_is_converted_before_it_is_written() -> None:
    module = nn.Linear(512, 512)
    (delegate,) = compile_module(
        module, (torch.rand(1, 512),), "fp16", [torch.ops.aten.linear.default]
    ).delegates
    with torch.no_grad():
        module.weight.fill_(0.25)
    halves = [part for part in delegate.blob if len(part) == 2 * 512 * 512]
    assert [isinstance(part, ComputedBytes) for part in halves] == [True]
    assert join(halves) == torch.full((512, 512), 0.25).half().numpy().tobytes()


class Guarded(nn.Module):
    """Divisions that an epsilon guards in each form that a graph can have."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4, eps=1e-12)
        self.least: torch.Tensor
        self.register_buffer("least", torch.tensor(1e-11))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean = (x * x).mean(-1, keepdim=True)
        root = x * torch.rsqrt(mean + 1e-12)
        return self.norm(x), root, x / mean.clamp(min=1e-10), x / (mean + self.least)


def test_an_epsilon_does_not_vanish_in_float16() -> None:
    x = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.1, 0.2, -0.1, 0.5]])
    compiled = compile_module(Guarded(), (x,), "fp16")
    for result, wanted in zip(compiled(x), eager(Guarded().eval(), (x,)), strict=True):
        assert wanted.abs().max() > 1
        torch.testing.assert_close(result, wanted, rtol=2e-3, atol=2e-3)
    (norm,) = [
        node.mpsnodeUnion
        for node in read_blob(memoryview(compiled.blobs()[0])).graph.mpsNodes
        if isinstance(node.mpsnodeUnion, LayerNormT)
    ]
    assert norm.eps == pytest.approx(1e-12)  # It is computed in float32.
    assert torch.tensor(FLOAT16_LEAST).half() > 0 and torch.tensor(FLOAT16_LEAST / 2).half() == 0


def test_a_mask_of_the_lowest_float_is_not_nan_in_float16() -> None:
    class Masked(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return (x + (1.0 - mask) * torch.finfo(torch.float32).min).softmax(-1)

    args = (torch.rand(2, 3), torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
    compiled = compile_module(Masked(), args, "fp16")
    torch.testing.assert_close(compiled(*args)[0], Masked()(*args), rtol=2e-3, atol=2e-3)


def test_debug_handles_name_the_source_of_each_operation() -> None:
    compiled = compile_module(convolutional(), (torch.rand(1, 1, 8, 8),))
    (delegate,) = compiled.delegates
    assert sorted(delegate.debug_handle_map) == list(range(len(operations(delegate.blob_bytes()))))
    assert {h for handles in delegate.debug_handle_map.values() for h in handles} <= set(
        delegate.debug_handles
    )
