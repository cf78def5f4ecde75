# SPDX-License-Identifier: Apache-2.0
"""Rows of the tables: architectures, and their models and inputs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import nn

from delegatec import Model

SEED = 20
VOCABULARY = 99

# Makes the tensor of one run (counted from 0); values are drawn with the generator.
Input = Callable[[torch.Generator, int], torch.Tensor]


def tokens(*shape: int, vocabulary: int = VOCABULARY) -> Input:
    """Ids from 3 on (those below are padding, start and end in most vocabularies), int64."""
    return lambda generator, _: torch.randint(3, vocabulary, shape, generator=generator)


def noise(*shape: int, scale: float = 1.0) -> Input:
    """Normally distributed values, float32: pixels, samples, spectra, features."""
    return lambda generator, _: torch.randn(shape, generator=generator) * scale


def uniform(*shape: int, low: float = 0.0, high: float = 1.0) -> Input:
    """Values in an interval, float32: boxes, points, times."""
    return lambda generator, _: torch.rand(shape, generator=generator) * (high - low) + low


def ones(*shape: int, padding: int = 0, dtype: torch.dtype = torch.int64) -> Input:
    """A mask of ones whose last `padding` columns are zeros."""

    def make(_: torch.Generator, __: int) -> torch.Tensor:
        mask = torch.ones(shape, dtype=dtype)
        mask[..., shape[-1] - padding :] = 0
        return mask

    return make


def integers(*shape: int, high: int) -> Input:
    """Integers from 0 to below `high`, int64."""
    return lambda generator, _: torch.randint(0, high, shape, generator=generator)


def value(number: int | float | bool | list[Any]) -> Input:
    """That exact scalar, or list of scalars."""
    return lambda _, __: torch.tensor(number)


def position() -> Input:
    """The index of the run, int64 ``[1]``: where a decoding step writes into its cache."""
    return lambda _, run: torch.tensor([run])


@dataclass(frozen=True, eq=False)
class Case:
    """One architecture.

    Attributes:
        name: of the row.
        family: its kind: "vision", "text", ...
        model: name of a class of transformers, or a class of plain PyTorch.
        config: name of its configuration; "" for a class.
        sizes: arguments of the configuration, or of the class: small in width, whole in structure.
        inputs: keyword argument of `forward` -> how it is made.
        wrap: turns the model into the module that is exported; None for the model itself.
        runs: how often the program runs; each run has other inputs, and state lasts.
        tolerance: largest difference from eager mode, relative to the output's largest magnitude.
        mps_tolerance: the same for the MPS delegate, by its reference executor.
        refusal: code and reason if it is known not to work, else None.
        strict: whether torch.export traces bytecode; it then finds that the tensors of a cache are buffers.
        experts: how a mixture of experts is computed; "" for the default of transformers, which sorts tokens
            by expert in a custom operator.
        dynamic: keyword argument -> dimension -> (least, largest) size, of the dimensions that are dynamic.
    """

    name: str
    family: str
    model: str | type[nn.Module]
    config: str
    sizes: Mapping[str, Any]
    inputs: Mapping[str, Input]
    wrap: Callable[[nn.Module], nn.Module] | None = None
    runs: int = 1
    tolerance: float = 1e-5
    mps_tolerance: float = 1e-5
    refusal: tuple[str, str] | None = None
    strict: bool = False
    experts: str = ""
    dynamic: Mapping[str, Mapping[int, tuple[int, int]]] = field(default_factory=dict)

    def module(self) -> nn.Module:
        """The module that is exported, with weights that the seed decides, in eval mode."""
        torch.manual_seed(SEED)
        module = self._fresh()
        stir(module.eval())
        return self.wrap(module).eval() if self.wrap else module

    def _fresh(self) -> nn.Module:
        sizes = copy.deepcopy(dict(self.sizes))
        if not isinstance(self.model, str):
            return self.model(**sizes)
        config = getattr(transformers, self.config)(**sizes)
        if self.experts:
            config._experts_implementation = self.experts
        module: nn.Module = getattr(transformers, self.model)(config)
        return module

    def examples(self, run: int = 0) -> dict[str, torch.Tensor]:
        """Inputs of one run."""
        generator = torch.Generator().manual_seed(SEED + run)
        return {name: make(generator, run) for name, make in self.inputs.items()}

    def declared(self) -> Model:
        """Returns the model, like a user's entry function."""
        shapes = None
        if self.dynamic:
            dims = {
                bounds: torch.export.Dim(f"size_{index}", min=bounds[0], max=bounds[1])
                for index, bounds in enumerate(
                    sorted({bounds for dims in self.dynamic.values() for bounds in dims.values()})
                )
            }
            shapes = {
                name: {dim: dims[bounds] for dim, bounds in self.dynamic.get(name, {}).items()}
                for name in self.inputs
            }
        return Model(self.module(), (), self.examples(), shapes, strict=self.strict)


@torch.no_grad()
def stir(module: nn.Module) -> None:
    """Draws weights so that every part of a model matters to its result.

    Fresh models have biases of zero, scales of one, and running statistics that change nothing: a compiler
    that lost one of these would not be detected.
    """
    for parameter in module.parameters():
        if not parameter.is_floating_point():
            continue
        if parameter.ndim >= 2:
            fan_in = math.prod(parameter.shape[1:])
            parameter.normal_(0, 1 / math.sqrt(max(1, fan_in)))
        else:
            parameter.add_(torch.randn(parameter.shape) * 0.1)
    for name, buffer in module.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(0, 0.1)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
