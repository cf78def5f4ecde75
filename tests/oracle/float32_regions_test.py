# SPDX-License-Identifier: Apache-2.0
"""Values that the code of a model converts to float32 stay in float32 where a backend computes in float16."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.extension.pybindings import _portable_lib
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from delegatec.backends import builtin_backends
from delegatec.edge.convert import to_edge
from delegatec.edge.float32_regions import FLOAT32
from delegatec.edge.testing import Function
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.emitted import DelegateCall
from delegatec.program.reader import read_program
from delegatec.verify.interpreter import Interpreter

aten = torch.ops.aten
X = torch.rand(2, 4, 8)
WEIGHT = torch.rand(8, 8)


def _norm(x: Tensor) -> Tensor:
    dtype, x = x.dtype, x.relu().to(torch.float32)
    x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    return x.to(dtype).abs()


def _one_line(x: Tensor) -> Tensor:
    return x.relu().float().exp().type_as(x).abs()


def _attention(x: Tensor) -> Tensor:
    scores = torch.matmul(x, x.mT)
    return torch.matmul(F.softmax(scores, -1, dtype=torch.float32).to(x.dtype), x)


def _rotation(x: Tensor) -> Tensor:
    positions = torch.arange(x.shape[1])[:, None].float() * 3
    return x * positions.cos().to(x.dtype)


def _whole_model(x: Tensor) -> Tensor:
    x = x.abs().float()
    x = x + F.linear(x, WEIGHT)
    return x.exp()


def _both_operands(x: Tensor) -> Tensor:
    first, second = x.sin().float(), x.cos().float()
    return torch.matmul(first, second.mT).to(x.dtype).abs()


def _other_dtype(x: Tensor) -> Tensor:
    return x.to(x.dtype).abs().to(WEIGHT.dtype)


def _several_results(x: Tensor) -> Tensor:
    values, _ = x.sin().float().topk(2)
    return values + 1


def _in_place(x: Tensor) -> Tensor:
    x = x.clone().float()
    x.mul_(2).add_(x)
    return x.to(WEIGHT.dtype).abs()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (_norm, "pow mean add rsqrt mul"),
        (_one_line, "exp"),
        (_attention, "softmax"),
        (_rotation, ""),
        (_whole_model, ""),
        (_both_operands, "permute matmul"),
        (_other_dtype, ""),
        (_several_results, "topk getitem add"),
        (_in_place, "mul add"),
    ],
)
def test_regions(function: Callable[[Tensor], Any], expected: str) -> None:
    preserve = (aten.matmul.default, aten.softmax.int)
    exported = export(Model(Function(function), (X,)), samples=0)["forward"]
    graph = to_edge(exported, preserve=preserve).graph
    marked = [node for node in graph.nodes if node.meta.get(FLOAT32)]
    names = [getattr(node.target, "_opname", "getitem") for node in marked]
    assert " ".join(names) == expected


class _LinearAttention(torch.nn.Module):
    """Attention of an EfficientViT: its sums over all positions overflow float16."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv = torch.nn.Conv2d(8, 24, 1)
        self.projection = torch.nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.flatten(2) for part in (self.qkv(x) * 40).float().chunk(3, 1))
        q, k = q.relu(), k.relu()
        total = torch.matmul(k.sum(-1, keepdim=True).mT, q)
        mixed = torch.matmul(torch.matmul(v, k.mT), q) / (total + 1e-5)
        result: Tensor = self.projection(mixed.to(x.dtype).view(x.shape))
        return result


@pytest.mark.parametrize("backend", ["mlx", "mps", "vulkan", "xnnpack"])
def test_values_beyond_float16(backend: str, tmp_path: Path) -> None:
    module, x = _LinearAttention().eval(), torch.randn(1, 8, 16, 16)
    lowered = lower(export(Model(module, (x,))), backend, {"precision": "fp16"})
    (method,) = lowered.emitted.methods
    assert [type(each) for each in method.instructions] == [DelegateCall]
    pte = tmp_path / "attention.pte"
    with pte.open("wb") as file:
        write_program(lowered.emitted, file)
    if backend == "xnnpack":
        (result,) = _portable_lib._load_program(str(pte)).load_method("forward").call([x])
    else:
        program = read_program(pte)
        named = program.named_bytes()
        (result,) = Interpreter(program.method("forward"), builtin_backends(), named_data=named).run([x])
    with torch.no_grad():
        torch.testing.assert_close(result, module(x), atol=0.05, rtol=0)
