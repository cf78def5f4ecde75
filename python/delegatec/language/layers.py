# SPDX-License-Identifier: Apache-2.0
"""Layers of a network with stored weights of another form: each keeps the code of its library's class."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from delegatec.edge.quantization.affine import AFFINE
from delegatec.language.forms import Form

_ROWS: Final = (-128, 127)


class Operands:
    """The last operand that was quantized: the layers of queries, keys and values have the same one."""

    def __init__(self) -> None:
        self._last: tuple[Tensor, Tensor] | None = None

    def quantized(self, x: Tensor) -> Tensor:
        """Returns `dynamically_quantized` of an operand."""
        if self._last is None or self._last[0] is not x:
            self._last = x, dynamically_quantized(x)
        return self._last[1]

    @contextmanager
    def of_one_call(self) -> Iterator[None]:
        """Forgets the operand at the end of a call of the network."""
        try:
            yield
        finally:
            self._last = None


def store_weight(module: nn.Module, name: str, form: Form, activation: str, operands: Operands) -> None:
    """Replaces a weight of a layer, in place, by tensors of another form; their values are not set.

    Args:
        module: a linear layer, an embedding, or the experts of a mixture, which have several weights.
        name: the weight.
        form: the form, that of all weights of the module; that of a float weight changes its dtype only.
        activation: "dynamic_int8" or "float", for a linear layer with integer weights.
        operands: that of the network.
    """
    weight = getattr(module, name)
    delattr(module, name)
    for part, matrix in form.matrices(name, weight).items():
        for stored, tensor in form.empty(part, matrix).items():
            module.register_buffer(stored, tensor)
    module.delegatec_form = form  # type: ignore[assignment]
    module.delegatec_activation = activation  # type: ignore[assignment]
    module.delegatec_operands = operands  # type: ignore[assignment]
    if not form.per_expert:
        module.__class__ = _with_stored_weight(type(module), hasattr(module, "delegatec_is_factor"))  # type: ignore[arg-type]


@functools.cache
def _with_stored_weight(owner: type[nn.Module], is_factor: bool) -> type[nn.Module]:
    """Returns a subclass of a layer's class whose weight is computed from stored tensors."""
    mixin = _Embedding if issubclass(owner, nn.Embedding) else _Factor if is_factor else _Linear
    return type(owner.__name__, (mixin, owner), {"__module__": owner.__module__})


class _Stored(nn.Module):
    """The weight of a layer, out of its stored tensors."""

    delegatec_form: Form
    delegatec_activation: str
    delegatec_operands: Operands

    @property
    def weight(self) -> Tensor:
        """The weight, float32 [rows, columns]."""
        return _matrix(self, "weight")


class _Embedding(_Stored):
    """An embedding of stored rows."""


class _Linear(_Stored):
    """A linear layer with a stored weight, which may quantize its operand at run time."""

    def forward(self, x: Tensor) -> Tensor:
        """Applies the layer to float32 [..., columns]."""
        bias: Tensor | None = self.bias  # type: ignore[assignment]
        return product(self, "weight", x, bias)


class _Factor(_Stored):
    """A linear layer that its network does not call, but multiplies its weight by columns."""

    @property
    def weight(self) -> _Matrix:  # type: ignore[override]
        """The weight, as the left operand of `@`."""
        return _Matrix(self)


@dataclass(frozen=True)
class _Matrix:
    """The weight of a layer as the left operand of a product, which is computed as that of a layer."""

    layer: _Factor

    def __matmul__(self, columns: Tensor) -> Tensor:
        return product(self.layer, "weight", columns.transpose(-1, -2), None).transpose(-1, -2)


def product(module: Any, name: str, x: Tensor, bias: Tensor | None) -> Tensor:
    """Applies a linear layer, whose operand may be quantized at run time.

    Args:
        module: has the weight, after `store_weight`.
        name: the weight, or that of one expert.
        x: float32 [..., columns].
        bias: float32 [rows].
    """
    is_dynamic = module.delegatec_activation == "dynamic_int8" and module.delegatec_form.is_integer
    operand = module.delegatec_operands.quantized(x) if is_dynamic else x
    return functional.linear(operand, _matrix(module, name), bias)


def products(module: Any, name: str, x: Tensor, chosen: Tensor, bias: Tensor | None) -> Tensor:
    """Applies one of several linear layers to each row, whose operand may be quantized at run time.

    Args:
        module: has the weights of all layers in one tensor, after `join_weights`.
        name: the weights.
        x: float32 [n, columns].
        chosen: int64 [n], the layer of each row.
        bias: float32 [layers, rows].
    """
    is_dynamic = module.delegatec_activation == "dynamic_int8" and module.delegatec_form.is_integer
    operand = module.delegatec_operands.quantized(x) if is_dynamic else x
    result = torch.bmm(operand[:, None], _matrix(module, name)[chosen].mT)[:, 0]
    return result if bias is None else result + bias[chosen]


def join_weights(module: Any, name: str, count: int) -> None:
    """Joins the stored tensors of several layers of a module, in place.

    Args:
        module: has the weights, after `store_weight`, with their values.
        name: the weight that they are the parts of.
        count: number of layers.
    """
    form: Form = module.delegatec_form
    parts = zip(*(form.names(f"{name}_{index}") for index in range(count)), strict=True)
    for joint, names in zip(form.names(name), parts, strict=True):
        module.register_buffer(joint, torch.stack([module._buffers.pop(each) for each in names]))


def _matrix(module: Any, name: str) -> Tensor:
    """Returns a weight, float32 [rows, columns], out of its stored tensors; or those of several layers."""
    form: Form = module.delegatec_form
    stored = [module._buffers[each] for each in form.names(name)]
    if not form.is_integer:
        return stored[0].to(torch.float32)  # type: ignore[no-any-return]
    values, scale = stored
    block = [*[1] * (values.dim() - 2), *form.block(values.shape[-1])]
    weight: Tensor = AFFINE.dequantize_affine(values, block, scale, None, torch.int8, *form.limits)
    return weight


def dynamically_quantized(x: Tensor) -> Tensor:
    """Returns float32 [..., columns] as int8 values represent it: a scale and a zero point per row."""
    block = [*[1] * (x.dim() - 1), x.shape[-1]]
    chosen: Any = AFFINE.choose_qparams_affine(
        x, "ASYMMETRIC", block, torch.int8, *_ROWS, None, None, torch.int8
    )
    scale, zero_point = chosen
    arguments = (block, scale, zero_point, torch.int8, *_ROWS)
    result: Tensor = AFFINE.dequantize_affine(AFFINE.quantize_affine(x, *arguments), *arguments)
    return result
