# SPDX-License-Identifier: Apache-2.0
"""Products of float32 matrices by OpenBLAS, in the process that calls the user's module.

Golden samples are bytes of an output: they need the same bits on every CPU. MKL's mode for that uses SSE2
only; numpy's OpenBLAS, with kernels for AVX2, is 2.6 times faster for the layers of ViT-base.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy
import torch

aten = torch.ops.aten

# With these, which the compiler's command sets, the kernels are the same on every CPU with AVX2.
_PINS: Final = {"ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}
# Multiplications from which on a product amortizes the overhead of Python.
_LARGE: Final = 2**20
# Registrations end with their library.
_LIBRARIES: Final[list[Any]] = []


def use_openblas() -> None:
    """Replaces torch's kernels for products of matrices, in this process, if the environment has the pins."""
    if _LIBRARIES or any(os.environ.get(name) != value for name, value in _PINS.items()):
        return
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    library.impl("addmm", _addmm, "CPU")
    library.impl("mm", _mm, "CPU")
    _LIBRARIES.append(library)


@contextmanager
def openblas() -> Iterator[None]:
    """Replaces these kernels within the block, if nothing did before."""
    before = [*_LIBRARIES]
    use_openblas()
    try:
        yield
    finally:
        if not before:
            while _LIBRARIES:
                _LIBRARIES.pop()._destroy()


def _addmm(
    x: torch.Tensor, first: torch.Tensor, second: torch.Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Any:
    if beta == alpha == 1 and x.dtype == torch.float32 and _is_large(first, second):
        return x + _product(first, second)
    return aten.addmm.out(x, first, second, beta=beta, alpha=alpha, out=x.new_empty(0))


def _mm(first: torch.Tensor, second: torch.Tensor) -> Any:
    if _is_large(first, second):
        return _product(first, second)
    return aten.mm.out(first, second, out=first.new_empty(0))


def _is_large(first: torch.Tensor, second: torch.Tensor) -> bool:
    is_product = first.dim() == second.dim() == 2 and first.shape[1] == second.shape[0]
    is_float = first.dtype == second.dtype == torch.float32
    return is_product and is_float and first.numel() * second.shape[1] >= _LARGE


def _product(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(numpy.matmul(first.detach().numpy(), second.detach().numpy()))
