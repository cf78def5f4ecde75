# SPDX-License-Identifier: Apache-2.0
"""Weights of an adapter as a program loads them: those of all its layers, in its rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.language.lora.folder import LowRank
from delegatec.language.lora.layers import DOWN, UP

Shapes = Mapping[str, tuple[int, ...]]


def fitted(changes: Mapping[str, LowRank], shapes: Shapes) -> dict[str, Tensor]:
    """Returns the weights of an adapter: zeros in layers that it does not change, and beyond its rank.

    Args:
        changes: name of a layer of the network -> its change.
        shapes: name of each weight of adapters in the program -> its shape.

    Raises:
        DelegatecError: DC117, the adapter changes other layers, has a larger rank, or is one of another
            model; or the program has no adapters.
    """
    if not any(name.endswith(DOWN) for name in shapes):
        text, help = "the model has no adapters", "set adapter_rank and adapter_modules of the language_model"
        raise DelegatecError([Diagnostic("DC117", text, help=help)])
    layers = {name.removesuffix(f".{DOWN}"): shape for name, shape in shapes.items() if name.endswith(DOWN)}
    # names in the program have the attribute of the module before those of the network
    names = {name.partition(".")[2]: name for name in layers}
    if problems := [*_problems(changes, names, shapes)]:
        raise DelegatecError(problems)
    result = {name: torch.zeros(shape) for name, shape in shapes.items()}
    for layer, change in changes.items():
        rank = len(change.down)
        result[f"{names[layer]}.{DOWN}"][:rank] = change.down
        result[f"{names[layer]}.{UP}"][:, :rank] = change.up
    return result


def _problems(
    changes: Mapping[str, LowRank], names: Mapping[str, str], shapes: Shapes
) -> Iterator[Diagnostic]:
    """Yields one problem for each kind of mistake."""
    another = "an adapter of this model"
    unknown = [name for name in changes if name not in names]
    modules = sorted({name.rpartition(".")[2] for name in names})
    if missing := sorted({name.rpartition(".")[2] for name in unknown} - {*modules}):
        yield Diagnostic(
            "DC117",
            f"the adapter changes {', '.join(missing)}",
            expected=f"adapter_modules of the model: {', '.join(modules)}",
            help="add them to adapter_modules",
        )
    elif unknown:
        text = f'the adapter changes "{unknown[0]}", which the model does not have'
        yield Diagnostic("DC117", text, expected=another)
    rank = max(shape[0] for name, shape in shapes.items() if name.endswith(DOWN))
    largest = max(len(change.down) for change in changes.values())
    if largest > rank:
        yield Diagnostic(
            "DC117",
            f"the adapter has rank {largest}",
            expected=f"at most adapter_rank = {rank} of the model",
            help="set adapter_rank",
        )
    for name in [name for name in changes if name in names]:
        found = [len(changes[name].up), changes[name].down.shape[1]]
        wanted = [shapes[f"{names[name]}.{UP}"][0], shapes[f"{names[name]}.{DOWN}"][1]]
        if found != wanted:
            text = f'the adapter changes a weight {found} of "{name}", which is {wanted} in the model'
            yield Diagnostic("DC117", text, expected=another)
            return
