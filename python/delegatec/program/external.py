# SPDX-License-Identifier: Apache-2.0
"""Weights that a program reads from a `.ptd` beside it: which they are, and under which names."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from delegatec.program.constants import tensor_bytes


class ExternalWeights:
    """The weights of a `.ptd`, by the memory that they lie in.

    A constant of a program is external if it is one of them as it stands: the same memory, dtype and shape.
    What a pass made of weights (folded, converted, reshaped) is the program's own, and stays in the `.pte`:
    the runtime compares dtype and shape of an external tensor with those in the `.ptd`.

    Args:
        weights: fully qualified name -> weight, dense and row-major. Of several names for the same memory
            the first one counts; a program has it as its only key.
    """

    def __init__(self, weights: Mapping[str, torch.Tensor]) -> None:
        self._keys: dict[tuple[int, torch.dtype, tuple[int, ...]], str] = {}
        for name, tensor in weights.items():
            # without elements there is nothing to share, and addresses say nothing
            if tensor.numel():
                self._keys.setdefault(_place(tensor, tuple(tensor.shape)), name)
        self._used: dict[str, memoryview] = {}

    def key(self, tensor: torch.Tensor, sizes: tuple[int, ...]) -> str | None:
        """The key of a constant, which is noted as being used; None if it is the program's own.

        Args:
            tensor: the constant, dense and row-major.
            sizes: the shape that the program reads it with.
        """
        key = self._keys.get(_place(tensor, sizes))
        if key is not None:
            self._used[key] = tensor_bytes(tensor)
        return key

    @property
    def used(self) -> dict[str, memoryview]:
        """Key -> bytes of each weight that was asked for, in order of first use."""
        return self._used


def _place(tensor: torch.Tensor, sizes: tuple[int, ...]) -> tuple[int, torch.dtype, tuple[int, ...]]:
    return tensor.data_ptr(), tensor.dtype, sizes
