# SPDX-License-Identifier: Apache-2.0
"""The weights of a network in the forms in which a program stores them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn

from delegatec.language.forms import Form
from delegatec.language.network import tied_weights
from delegatec.language.sources import Weights

_FLOAT32: Final = Form("float32")


def stored_tensors(network: Any, forms: Mapping[str, Form]) -> dict[str, Tensor]:
    """Returns the stored tensors of a network without weights by name, on the device meta; tied ones once."""
    tied = tied_weights(network, forms)
    result: dict[str, Tensor] = {}
    for name, tensor in network.state_dict().items():
        if name not in tied:
            form = forms.get(name, _FLOAT32)
            for part, matrix in form.matrices(name, tensor).items():
                result |= form.empty(part, matrix)
    return result


def convert(network: Any, forms: Mapping[str, Form], weights: Weights) -> Iterator[tuple[str, int, Tensor]]:
    """Yields parts of the stored tensors: a name, the first row, and the values of some rows.

    Args:
        network: the network, without weights, before `store_weights`.
        forms: name of a weight -> its form, where it is not float32.
        weights: where the values come from.
    """
    tied = tied_weights(network, forms)
    for name, tensor in network.state_dict().items():
        if name in tied:
            continue
        form = forms.get(name, _FLOAT32)
        with weights.rows(name) as rows:
            for index, (part, matrix) in enumerate(form.matrices(name, tensor).items()):
                count, row = (matrix.shape[0], matrix[0].numel()) if matrix.dim() else (1, 1)
                yield from form.chunks(part, form.reader(rows, index), count, row)


def in_memory(network: Any, forms: Mapping[str, Form], weights: Weights) -> dict[str, Tensor]:
    """Returns the stored tensors with their values."""
    result = {
        name: torch.empty_like(each, device="cpu") for name, each in stored_tensors(network, forms).items()
    }
    for name, start, part in convert(network, forms, weights):
        if part.dim():
            result[name][start : start + len(part)] = part
        else:
            result[name].copy_(part)
    return result


def attach(network: Any, forms: Mapping[str, Form], tensors: Mapping[str, Tensor]) -> None:
    """Gives a network its stored tensors, in place, after `store_weights`.

    Args:
        network: the network.
        forms: the forms of its weights.
        tensors: the stored tensors by name: views of a mapped file remain so.
    """
    held: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        owner, leaf = _owner(network, name)
        is_parameter = leaf in owner._parameters
        held[name] = nn.Parameter(tensor, requires_grad=False) if is_parameter else tensor
        setattr(owner, leaf, held[name])
    for name, other in tied_weights(network, forms).items():
        for stored, shared in zip(*(forms[each].names(each) for each in (name, other)), strict=True):
            setattr(*_owner(network, stored), held[shared])


def _owner(network: Any, name: str) -> tuple[nn.Module, str]:
    """Returns the module of a tensor, and its name there."""
    owner, _, leaf = name.rpartition(".")
    return network.get_submodule(owner), leaf
