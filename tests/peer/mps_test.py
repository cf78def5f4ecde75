# SPDX-License-Identifier: Apache-2.0
"""The same operations and constants as the peer's where it is right, and the right ones where it is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.mps.testing import compile_module, eager, operations
from delegatec.diagnostics import DelegatecError
from tests.peer.blobs import normal_form, peer_blobs
from tests.peer.lowering import runner
from tests.peer.suite import Call

torch.manual_seed(0)
X = torch.rand(2, 3, 4) - 0.5
Y = torch.rand(2, 3, 4) + 0.5
IMAGE = torch.rand(1, 4, 8, 8)


class Logits(nn.Module):
    """The logits of a model of transformers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(pixel_values=x).logits


class First(nn.Module):
    """The first result of a layer that may have several."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layer(x)
        return out[0] if isinstance(out, tuple) else out


class Embedding(nn.Module):
    """A table of which row 0 stands for padding, and has learned something all the same."""

    def __init__(self, padding_idx: int | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(1.0, 13.0).view(4, 3))
        self.padding_idx = padding_idx

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return F.embedding(ids, self.weight, self.padding_idx)


def digits() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def mobilenet_v2() -> nn.Module:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    torch.manual_seed(0)
    return Logits(MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=10, depth_multiplier=0.35)))


def bert_layer() -> nn.Module:
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertLayer

    torch.manual_seed(0)
    config = BertConfig(hidden_size=16, num_attention_heads=2, intermediate_size=32)
    config._attn_implementation = "eager"
    return First(BertLayer(config))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "digits": (digits, (torch.rand(1, 1, 8, 8),)),
    "mobilenet_v2": (mobilenet_v2, (torch.rand(1, 3, 64, 64),)),
    "embedding": (lambda: Embedding(None), (torch.tensor([[1, 2]]),)),
    "bert layer": (bert_layer, (torch.rand(1, 6, 16),)),
}
OPERATORS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "add": (torch.add, (X, Y)),
    "add with alpha": (lambda a, b: torch.add(a, b, alpha=2), (X, Y)),
    "sub": (torch.sub, (X, Y)),
    "mul by a number": (lambda a: a * 2.5, (X,)),
    "div": (torch.div, (X, Y)),
    "div floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), (X * 9, Y)),
    "pow": (lambda a: a.pow(2), (X,)),
    "exp": (torch.exp, (X,)),
    "tanh": (torch.tanh, (X,)),
    "rsqrt": (torch.rsqrt, (Y,)),
    "minimum": (torch.minimum, (X, Y)),
    "where": (lambda a, b: torch.where(a > b, a, b), (X, Y - 0.5)),
    "clamp": (lambda a: a.clamp(-0.1, 0.2), (X,)),
    "hardtanh": (F.hardtanh, (X * 9,)),
    "gelu": (F.gelu, (X,)),
    "leaky_relu": (lambda a: F.leaky_relu(a, 0.2), (X,)),
    "softmax": (lambda a: a.softmax(-1), (X,)),
    "log_softmax": (lambda a: a.log_softmax(1), (X,)),
    "bmm": (torch.bmm, (X, Y.transpose(1, 2).contiguous())),
    "mean": (lambda a: a.mean((1, 2), keepdim=True), (X,)),
    "max_pool2d": (lambda a: F.max_pool2d(a, 3, 2, padding=1), (IMAGE,)),
    "avg_pool2d": (lambda a: F.avg_pool2d(a, 3, 2, padding=1, count_include_pad=False), (IMAGE,)),
    "index_select": (lambda a, i: a.index_select(1, i) * 2.0, (X, torch.tensor([2, 0]))),
    "cat": (lambda a, b: torch.cat([a.exp(), b], 1), (X, Y)),
    "slice and select": (lambda a: a.exp()[:, 1:, 2], (X,)),
    "pad": (lambda a: F.pad(a.exp(), (1, 2), value=0.5), (X,)),
    "split": (lambda a: a.exp().split([1, 3], -1), (X,)),
    "layer_norm": (lambda a, w, b: F.layer_norm(a, (4,), w, b), (X, torch.rand(4), torch.rand(4))),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, 2, 1), (IMAGE, torch.rand(6, 4, 3, 3), torch.rand(6))),
    "conv2d depthwise": (lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 4), (IMAGE, torch.rand(4, 1, 3, 3))),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, dilation=2), (IMAGE[0], torch.rand(6, 8, 3), torch.rand(6))),
}  # fmt: skip
CASES = {**MODELS, **{name: (lambda f=f: Call(f), args) for name, (f, args) in OPERATORS.items()}}


@pytest.mark.parametrize("fp16", [False, True], ids=["fp32", "fp16"])
@pytest.mark.parametrize("name", CASES)
def test_same_operations_and_constants(name: str, fp16: bool) -> None:
    build, args = CASES[name]
    module = build()
    peer = peer_blobs(module, args, fp16=fp16)
    (ours,) = compile_module(module, args, "fp16" if fp16 else "fp32").blobs()
    found = normal_form(ours)
    wanted = [normal_form(blob) for blob in peer]
    assert found.compute == sum((form.compute for form in wanted), Counter())
    assert found.constants == sum((form.constants for form in wanted), Counter())
    assert found.moves <= sum((form.moves for form in wanted), Counter())
    if len(peer) > 1:  # It splits at each clone, which has no operation in the format.
        assert name == "bert layer"
        return
    assert [(form.inputs, form.outputs) for form in wanted] == [(found.inputs, found.outputs)]
    tolerance = 3e-2 if fp16 else 1e-5
    for result, reference in zip(runner(peer[0])(*args), eager(module, args), strict=True):
        torch.testing.assert_close(result, reference, rtol=tolerance, atol=tolerance)


def module_of(function: Callable[..., Any]) -> nn.Module:
    return function if isinstance(function, nn.Module) else Call(function)


def agrees(data: bytes, function: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> bool:
    """Whether a blob computes what the function does; false also where the runtime would stop."""
    try:
        results = runner(data)(*args)
    except (DelegatecError, RuntimeError):
        return False
    pairs = zip(results, eager(module_of(function), args), strict=True)
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True) for a, b in pairs)


# What the peer serialises for these is not what they mean.
DEFECTS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "addmm drops beta and alpha": (
        lambda a, b, c: torch.addmm(a, b, c, beta=2, alpha=3),
        (torch.rand(5), torch.rand(3, 4), torch.rand(4, 5)),
    ),
    "a cast becomes another name": (lambda a: a.to(torch.int32) + 1, (X * 9,)),
    "gelu's tanh form is x tanh(x)": (lambda a: F.gelu(a, approximate="tanh"), (X,)),
    "embedding zeroes the padding row": (Embedding(padding_idx=0), (torch.tensor([[0, 1]]),)),
    "expand to a higher rank": (lambda a: a.exp().expand(2, 2, 3, 4), (X,)),
    "pooling with ceil_mode and padding": (
        lambda a: F.max_pool2d(a, 3, 2, padding=1, ceil_mode=True),
        (torch.rand(1, 1, 5, 5),),
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_right_where_the_peer_is_wrong(name: str) -> None:
    function, args = DEFECTS[name]
    try:
        right = [agrees(blob, function, args) for blob in peer_blobs(module_of(function), args)]
    except Exception as error:  # noqa: BLE001 - whatever the peer raises counts
        right = [f"{type(error).__name__}" == ""]
    assert right in ([], [False]), "the peer is right here by now: move it to the cases"
    (ours,) = compile_module(module_of(function), args).blobs()
    assert agrees(ours, function, args)


def test_blobs_do_not_depend_on_what_was_compiled_before() -> None:
    class Scaled(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.layer = nn.Linear(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).pow(3)

    first, second = Scaled(8), Scaled(3)
    args = (torch.rand(2, 3),)
    alone = peer_blobs(second, args)
    peer_blobs(nn.Sequential(first, first), (torch.rand(2, 8),))
    assert peer_blobs(second, args, forget=False) != alone
    ours = compile_module(second, args).blobs()
    compile_module(nn.Sequential(first, first), (torch.rand(2, 8),))
    assert compile_module(second, args).blobs() == ours


def test_transposed_convolutions_that_the_peer_takes_for_others_are_left() -> None:
    function, args = F.conv_transpose2d, (IMAGE, torch.rand(4, 2, 3, 3))
    (peer,) = peer_blobs(module_of(function), args)
    assert operations(peer) == ["Conv2D"]
    assert not agrees(peer, function, args)
    compiled = compile_module(module_of(function), args)
    assert compiled.delegates == []
    assert compiled.report.rejections[0].operator == "aten.convolution.default"


def test_convolutions_over_three_dimensions_that_the_peer_takes_for_others_are_sums_of_slices() -> None:
    function, args = F.conv3d, (torch.rand(1, 2, 4, 4, 4), torch.rand(2, 2, 3, 3, 3))
    (peer,) = peer_blobs(module_of(function), args)
    assert operations(peer) == ["Conv2D"]
    assert not agrees(peer, function, args)
    (ours,) = compile_module(module_of(function), args).blobs()
    assert agrees(ours, function, args)
