# SPDX-License-Identifier: Apache-2.0
"""Weights that a program reads from a `.ptd` beside it: which they are, and under which names."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from delegatec.program.constants import tensor_bytes
from delegatec.program.scalar_type import SCALAR_TYPES


def weights_of(methods: Mapping[str, ExportedProgram]) -> dict[str, torch.Tensor]:
    """The weights of a model that a `.ptd` holds: parameters and buffers as they are in the model.

    Of a buffer that a method writes to it is the initial state. What lies in memory in another order than
    row by row stays with the program, which stores it anew.

    Args:
        methods: method name -> program; all of one model, so that a name means the same in each.

    Returns:
        Fully qualified name -> tensor, in the order of the model. Tied weights are there under each name.
    """
    weights: dict[str, torch.Tensor] = {}
    dropped: set[str] = set()
    for program in methods.values():
        for spec in program.graph_signature.input_specs:
            if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER) or spec.target is None:
                continue
            name = spec.target
            tensor = program.state_dict[name] if name in program.state_dict else program.constants[name]
            is_plain = tensor.is_contiguous() and tensor.dtype in SCALAR_TYPES and tensor.numel() > 0
            if not is_plain or weights.setdefault(name, tensor).data_ptr() != tensor.data_ptr():
                dropped.add(name)
    return {name: tensor for name, tensor in weights.items() if name not in dropped}


class ExternalWeights:
    """The weights of a `.ptd`, by the memory that they lie in.

    A constant of a program is external if it is one of them as it stands: the same memory, dtype and shape.
    What a pass made of weights (folded, converted, reshaped) is the program's own, and stays in the `.pte`:
    the runtime compares dtype and shape of an external tensor with those in the `.ptd`.

    Args:
        weights: fully qualified name -> weight, dense, row-major and not empty. Of several names for
            the same memory the first one counts; a program has it as its only key.

    Attributes:
        names: all of them.
    """

    def __init__(self, weights: Mapping[str, torch.Tensor]) -> None:
        self._keys: dict[tuple[int, torch.dtype, tuple[int, ...]], str] = {}
        for name, tensor in weights.items():
            self._keys.setdefault(_place(tensor, tuple(tensor.shape)), name)
        self.names = frozenset(weights)
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
