# SPDX-License-Identifier: Apache-2.0
"""Inputs of a method: the required contents of a sample of calibration data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree

from delegatec.diagnostics.exceptions import did_you_mean

Sample = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class MethodInputs:
    """The inputs of a method, in order.

    Attributes:
        values: name -> the fake tensor of an input, or the value of a constant one.
        spec: the tree of positional and keyword arguments.
    """

    values: Mapping[str, Any]
    spec: pytree.TreeSpec

    @staticmethod
    def of(program: ExportedProgram) -> MethodInputs:
        """Returns the inputs of a program."""
        # by position: a copy of a graph renames nodes whose name is one of Python's, such as "input"
        nodes = program.graph.find_nodes(op="placeholder")
        values = {
            spec.arg.name: spec.arg.value if isinstance(spec.arg, ConstantArgument) else node.meta.get("val")
            for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True)
            if spec.kind is InputKind.USER_INPUT
        }
        return MethodInputs(values, program.call_spec.in_spec)

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors among them, by name."""
        return {name: value for name, value in self.values.items() if isinstance(value, torch.Tensor)}

    def sample(self, named: Mapping[str, torch.Tensor]) -> Sample:
        """Returns arguments of the method from tensors by name."""
        leaves = [named.get(name, value) for name, value in self.values.items()]
        arguments, keywords = pytree.tree_unflatten(leaves, self.spec)
        return arguments, keywords

    def name_problems(self, names: Sequence[str]) -> list[str]:
        """Returns the error in the names of a sample's tensors."""
        missing = [f'input "{name}" is missing' for name in self.tensors if name not in names]
        return missing + [
            "; ".join(filter(None, (f'"{name}" is not an input', did_you_mean(name, self.tensors))))
            for name in names
            if name not in self.tensors
        ]

    def tensor_problem(self, name: str, found: torch.Tensor) -> str:
        """Returns the error of a tensor of one sample; empty if it fits."""
        value = self.tensors[name]
        if found.dtype != value.dtype or not _fits(found.shape, value.shape):
            text = f'"{name}" is {form(found)}, and the input is {form(value)}'
            is_batch = value.shape[:1] == (1,) and found.dim() == value.dim() and len(found) > 1
            if is_batch and _fits(found.shape[1:], value.shape[1:]):
                text += f": for {len(found)} samples, add a first dimension"
            return text
        # -inf is a masked score
        if found.is_floating_point() and not bool((found < torch.inf).all()):
            return f'"{name}" has NaN or infinity'
        return ""

    def count(self, name: str, found: torch.Tensor) -> int | None:
        """Returns the number of samples that a tensor stacks; None for one sample."""
        return found.shape[0] if found.dim() == self.tensors[name].dim() + 1 else None


def form(tensor: torch.Tensor) -> str:
    """Returns a tensor's dtype and shape, such as "float32[1, s0]"."""
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]"


def _fits(found: Sequence[int], expected: Sequence[Any]) -> bool:
    """Whether a shape is an instance of another; torch checks the range of a dynamic size."""
    return len(found) == len(expected) and all(
        not isinstance(size, int) or size == actual for actual, size in zip(found, expected, strict=True)
    )
