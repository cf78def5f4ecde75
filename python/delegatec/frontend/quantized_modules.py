# SPDX-License-Identifier: Apache-2.0
"""Modules of legacy quantization, other libraries and unfinished quantization, with the alternatives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch

from delegatec.diagnostics import Diagnostic
from delegatec.frontend.model import Model

_PACKAGES: Final = (
    *("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.ao.nn.sparse.quantized"),
    "bitsandbytes.nn",
)
_OBSERVES: Final = frozenset({"ObserverBase", "FakeQuantizeBase", "AffineQuantizedObserverBase"})
_OLDER: Final = (
    "a layer or tensor of torch's older quantization, or of bitsandbytes, which torch.export cannot trace"
)
_QUANTO: Final = (
    "a layer of optimum-quanto that calls operators of that library: its weights have 8 bits or are not "
    "frozen, or it quantizes activations"
)
_HELP: Final = (
    "quantize the original model with torchao: quantize_, or torch.export, prepare_pt2e and convert_pt2e"
)


def quantized_problems(model: Model) -> Iterator[Diagnostic]:
    """Yields a problem for the first module of each kind."""
    modules = model.module.named_modules()
    named = {name: module for name, module in modules if not isinstance(module, torch.jit.ScriptModule)}
    tensors = (*model.module.named_parameters(), *model.module.named_buffers())
    older = [name for name, module in named.items() if _is_older(module)]
    older += [name for name, tensor in tensors if tensor.is_quantized]
    if older:
        yield _problem(model, older, _OLDER, _HELP)
    quanto = [name for name, module in named.items() if _is_of_quanto(module)]
    if quanto:
        yield _problem(model, quanto, _QUANTO, _HELP)
    observers = [name for name, module in named.items() if _observes(module)]
    if observers:
        yield _problem(
            model,
            observers,
            "an observer of values for quantization: the model is prepared, but not converted",
            "call convert_pt2e (or convert_fx, or convert) on the prepared model after calibration",
        )


def _problem(model: Model, names: list[str], kind: str, help: str) -> Diagnostic:
    more = f", and {len(names) - 1} more" if len(names) > 1 else ""
    return Diagnostic(
        "DC119",
        f'"{names[0]}" of the module{more}: {kind}',
        location=model.location,
        expected="a module of float layers, of torchao's weights, or a converted graph of PT2E",
        help=help,
    )


def _is_older(module: torch.nn.Module) -> bool:
    # a reference module may call operators of PT2E
    is_decomposed = getattr(module, "is_decomposed", False)
    return type(module).__module__.startswith(_PACKAGES) and not is_decomposed


def _is_of_quanto(module: torch.nn.Module) -> bool:
    """Whether a layer calls operators of optimum-quanto; other layers of it dequantize their weights."""
    if not type(module).__module__.startswith("optimum.quanto."):
        return False
    weight = getattr(module, "weight", None)
    is_product = isinstance(module, torch.nn.Linear) and type(weight).__module__.endswith(".qbytes")
    is_frozen = getattr(module, "frozen", True)
    return is_product or not is_frozen or getattr(module, "activation_qtype", None) is not None


def _observes(module: torch.nn.Module) -> bool:
    return any(
        base.__name__ in _OBSERVES and base.__module__.startswith(("torch.ao.", "torchao."))
        for base in type(module).__mro__
    )
