# SPDX-License-Identifier: Apache-2.0
"""Products by oneDNN, for results that are compared within a tolerance and become no bytes of an output.

It is several times faster than the linear algebra that gives the same bits on every CPU (`pin_arithmetic`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch
from torch.fx import GraphModule

aten = torch.ops.aten

# Torch has it on the CPUs that the compiler runs on; a build of torch without it is slower here.
_HAS_ONEDNN: Final[bool] = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


@contextmanager
def fast_convolutions() -> Iterator[None]:
    """Enables oneDNN, which torch uses for convolutions."""
    if not _HAS_ONEDNN:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about other devices
        with torch.backends.mkldnn.flags(enabled=True):
            yield


def replace_linear_layers(module: torch.nn.Module) -> None:
    """Replaces the float32 linear layers of a module's graph, in place."""
    if not _HAS_ONEDNN:
        return
    assert isinstance(module, GraphModule)
    for node in module.graph.find_nodes(op="call_function", target=aten.linear.default):
        if node.meta["val"].dtype == torch.float32:
            node.target = _linear
    module.recompile()


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    if not x.numel() or not weight.numel():
        return torch.nn.functional.linear(x, weight, bias)
    result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return result
