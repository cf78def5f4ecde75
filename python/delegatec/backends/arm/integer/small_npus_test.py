# SPDX-License-Identifier: Apache-2.0
"""Quantized operators in the forms that Ethos-U55 has, with the results of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
import torch
from torch import nn
from torch.nn import functional as f

from delegatec.backends.arm.integer.testing import Function, dequantize, quantize, quantized_values
from delegatec.backends.arm.testing import compile_module, operators
from delegatec.backends.common.testing import Call, Compiled, eager

_U55: Final = "TOSA-1.0+INT+int16+u55"
_IMAGE: Final = (1, 3, 12, 13)
_SCALE: Final = 0.03

# Name -> the operand, and the function, which keeps quantized values unchanged.
_EXACT: Final[dict[str, tuple[tuple[int, ...], Function]]] = {
    "flip of every dimension": ((2, 3, 4, 5), lambda x: x.flip(0, 1, 2, -1)),
    "flip of a row": ((7,), lambda x: x.flip(0)),
    "reflection": (_IMAGE, nn.ReflectionPad2d((3, 2, 1, 0))),
    "reflection of a line": ((2, 3, 9), nn.ReflectionPad1d((8, 1))),
    "reflection of a volume": ((1, 2, 3, 4, 5), nn.ReflectionPad3d((1, 2, 0, 3, 2, 1))),
    "replication": (_IMAGE, nn.ReplicationPad2d((1, 2, 3, 0))),
    "circular": (_IMAGE, nn.CircularPad2d((1, 2, 3, 0))),
    "large axis": ((65537, 2, 2), lambda x: x.permute(1, 2, 0)),
    "large axis that stays": ((65537, 2, 2), lambda x: x.permute(0, 2, 1)),
    "large images": ((2, 2, 257, 257), lambda x: x.permute(0, 2, 3, 1)),
    "large volumes": ((2, 2, 41, 41, 41), lambda x: x.permute(0, 2, 3, 4, 1)),
    "pool of blocks": (_IMAGE, lambda x: f.max_pool2d(x, 4)),
    "pool with gaps": (_IMAGE, lambda x: f.max_pool2d(x, (2, 3), (5, 4))),
    "pool with overlap": ((1, 3, 30, 31), lambda x: f.max_pool2d(x, 7, 4, 3, ceil_mode=True)),
    "pool of a line": ((1, 3, 40), lambda x: f.max_pool1d(x, 15, 6, 7)),
    "pool of tall windows": ((1, 2, 300, 5), lambda x: f.max_pool2d(x, (257, 2), (3, 1))),
}


def _compiled(function: Function, x: torch.Tensor) -> tuple[Compiled, Callable[..., torch.Tensor]]:
    def on_quantized(x: torch.Tensor) -> torch.Tensor:
        return quantize(function(dequantize(x, _SCALE)), _SCALE, 0, x.dtype)  # type: ignore[no-any-return]

    compiled = compile_module(Call(on_quantized), (x,), specification=_U55)
    assert (len(compiled.delegates), compiled.left) == (1, [])
    return compiled, on_quantized


@pytest.mark.parametrize("name", _EXACT)
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16], ids=str)
def test_quantized_values_are_preserved(name: str, dtype: torch.dtype) -> None:
    shape, function = _EXACT[name]
    x = quantized_values(*shape, dtype=dtype)
    compiled, on_quantized = _compiled(function, x)
    (result,), (wanted,) = compiled(x), eager(Call(on_quantized), (x,))
    assert torch.equal(result, wanted) and wanted.min() < wanted.max()


def test_a_pool_of_blocks_needs_no_stride() -> None:
    compiled, _ = _compiled(lambda x: f.max_pool2d(x, 4), quantized_values(1, 8, 32, 32))
    found = [name for name in operators(compiled) if name not in ("RESHAPE", "TRANSPOSE")]
    assert found == ["MAX_POOL2D", "MAX_POOL2D"]


@pytest.mark.parametrize("shapes", [((4, 7), (7, 5)), ((2, 3, 40, 30), (2, 3, 30, 50))], ids=str)
def test_products_of_int16(shapes: tuple[tuple[int, ...], ...]) -> None:
    """They are multiplied elementwise, and added."""

    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        found = dequantize(x, 1e-3) @ dequantize(y, 1e-3)
        return quantize(found, 0.2, 0, torch.int16)  # type: ignore[no-any-return]

    args = tuple(quantized_values(*shape, dtype=torch.int16, seed=seed) for seed, shape in enumerate(shapes))
    compiled = compile_module(Call(product), args, specification=_U55)
    assert (len(compiled.delegates), compiled.left) == (1, [])
    found = operators(compiled)
    assert "MATMUL" not in found and found.count("MUL") == found.count("REDUCE_SUM") > 0
    (result,), (wanted,) = compiled(*args), eager(Call(product), args)
    assert (result.to(torch.int64) - wanted.to(torch.int64)).abs().max() <= 1
    assert wanted.min() < -1000 and wanted.max() > 1000


def test_cumulative_sums_of_int16() -> None:
    x = quantized_values(3, 20, 5, dtype=torch.int16) // 16
    compiled, on_quantized = _compiled(lambda x: x.cumsum(1), x)
    (result,), (wanted,) = compiled(x), eager(Call(on_quantized), (x,))
    assert (result.to(torch.int64) - wanted.to(torch.int64)).abs().max() <= 1
    assert wanted.min() < -5000 and wanted.max() > 5000
