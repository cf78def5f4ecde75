# SPDX-License-Identifier: Apache-2.0
"""CPU time per distinct call signature: many calls of a common operator, each of another size."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final

import torch
from stopwatch import collect_as_the_worker
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from delegatec import Model, lowering
from delegatec.cli.worker import warm_up
from delegatec.frontend import archive
from delegatec.frontend.export import export

CALLS: Final = 40
_KERNEL: Final = torch.ones(4, 4, 3, 3)
_ONES: Final = torch.ones(4)

# Functions of a tensor of shape [1, 4, 8 + i, 8].
OPERATORS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "add": lambda x: x + x,
    "where": lambda x: torch.where(x > 0, x, -x),
    "gelu": functional.gelu,
    "silu": functional.silu,
    "softplus": functional.softplus,
    "hardswish": functional.hardswish,
    "elu": functional.elu,
    "lerp": lambda x: torch.lerp(x, x, 0.3),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: functional.layer_norm(x, (8,)),
    "rms_norm": lambda x: functional.rms_norm(x, (8,)),
    "group_norm": lambda x: functional.group_norm(x, 2),
    "batch_norm": lambda x: functional.batch_norm(x, _ONES, _ONES),
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "amax": lambda x: x.amax(1),
    "argmax": lambda x: x.argmax(1),
    "std": lambda x: x.std(1),
    "cumsum": lambda x: x.cumsum(1),
    "linear": lambda x: functional.linear(x, torch.ones(3, 8)),
    "matmul": lambda x: x @ x.mT,
    "conv2d": lambda x: functional.conv2d(x, _KERNEL),
    "conv_transpose2d": lambda x: functional.conv_transpose2d(x, _KERNEL),
    "max_pool2d": lambda x: functional.max_pool2d(x, 2),
    "avg_pool2d": lambda x: functional.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: functional.adaptive_avg_pool2d(x, 4),
    "interpolate": lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "attention": lambda x: functional.scaled_dot_product_attention(x, x, x),
    "view": lambda x: x.view(2, -1) + 1,
    "permute": lambda x: x.permute(3, 0, 1, 2) + 1,
    "slice": lambda x: x[:, 1:] + 1,
    "cat": lambda x: torch.cat([x, x], 1),
    "split": lambda x: x.split(2, 1)[0] + 1,
    "pad": lambda x: functional.pad(x, (1, 1)),
    "index": lambda x: x[:, torch.tensor([0, 2])],
    "gather": lambda x: x.gather(1, (x > 2).long()),
}


class _Calls(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        return [self.function(x) for x in inputs]


def table() -> str:
    """Returns milliseconds per signature, of reading and of lowering."""
    warm_up()
    lines = ["| operator | read | portable | mps |", "| --- | ---: | ---: | ---: |"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "calls.pt2")
        for name, function in OPERATORS.items():
            inputs = tuple(torch.rand(1, 4, 8 + index, 8) for index in range(CALLS))
            archive.save(export(Model(_Calls(function), inputs)), path)
            lower: list[Any] = []
            for backend in ("portable", "mps"):
                lowering.lower(archive.load(path).methods, backend)  # imports
                collect_as_the_worker()
                FakeTensorMode.cache_clear()
                read, model = _milliseconds(lambda: archive.load(path))
                lower.append(_milliseconds(lambda m=model, b=backend: lowering.lower(m.methods, b))[0])
            lines.append(f"| {name} | {read:.2f} | {lower[0]:.2f} | {lower[1]:.2f} |")
    return "\n".join(lines)


def _milliseconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return 1e3 * (time.process_time() - start) / CALLS, result
