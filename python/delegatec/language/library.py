# SPDX-License-Identifier: Apache-2.0
"""Networks of transformers, built from a configuration without weights."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean, first_line
from delegatec.language.decoder import NotUnderstoodError
from delegatec.language.folder import CONFIG, Description


@dataclass(frozen=True)
class Kind:
    """What a network is for.

    Attributes:
        name: in messages, such as "a language model".
        auto: the class of transformers that builds one.
        mapping: the table of transformers with the families, `model_type` -> class.
        expected: what a checkpoint has to be, with examples.
        families: those of the table that are supported; empty for all.
    """

    name: str
    auto: str
    mapping: str
    expected: str
    families: Collection[str] = ()


def network_without_weights(description: Description, kind: Kind) -> Any:
    """Returns a network in float32, in eval mode, on the device meta.

    Args:
        description: the model.
        kind: what it is for.

    Raises:
        DelegatecError: DC103, transformers is missing; DC138, the configuration is not one of this kind, or
            the checkpoint is quantized.
    """
    family = family_of(description)
    _check_config(description.config, family, kind, known_families(kind))
    transformers: Any = importlib.import_module("transformers")
    auto = getattr(transformers, kind.auto)
    try:
        config = transformers.CONFIG_MAPPING[family].from_dict(dict(description.config))
        with torch.device("meta"):
            network: Any = auto.from_config(config, attn_implementation="eager", dtype=torch.float32)
    except Exception as error:
        # each configuration raises its own
        raise unsupported(
            f"transformers rejects {CONFIG}: {type(error).__name__}: {first_line(error)}",
            "a configuration as it was published",
        ) from error
    for module in network.modules():
        _keep_frequencies(module)
    return network.eval().requires_grad_(False)


def known_families(kind: Kind) -> Mapping[str, Any]:
    """Returns the families of a kind that transformers has.

    Raises:
        DelegatecError: DC103, transformers is missing.
    """
    try:
        modeling_auto = importlib.import_module("transformers.models.auto.modeling_auto")
    except ModuleNotFoundError as error:
        text = f'{kind.name} needs transformers: no module named "{error.name}"'
        help = "install it, or add it to deps"
        raise DelegatecError([Diagnostic("DC103", text, expected="transformers 5.23", help=help)]) from error
    found: Mapping[str, Any] = getattr(modeling_auto, kind.mapping)
    return found


def family_of(description: Description) -> str:
    """Returns `model_type` of the configuration."""
    return str(description.config.get("model_type", ""))


def _check_config(config: Mapping[str, Any], family: str, kind: Kind, known: Mapping[str, Any]) -> None:
    if quantization := config.get("quantization_config"):
        method = quantization.get("quant_method") if isinstance(quantization, Mapping) else None
        by = f" by {method}" if method else ""
        raise unsupported(
            f"the checkpoint is quantized{by}: {CONFIG} has quantization_config",
            "weights in float32, bfloat16 or float16",
            'take the checkpoint that it was quantized from, and set weights = "int4" or "int8"',
        )
    if family not in known:
        code = "it needs code of the folder (auto_map), which does not run" if config.get("auto_map") else ""
        raise unsupported(
            f'model_type "{family}" of {CONFIG} is not {kind.name} of transformers',
            kind.expected,
            code or did_you_mean(family, kind.families or known),
        )
    if kind.families and family not in kind.families:
        raise unsupported(
            f'{kind.name} of the family "{family}" is not supported',
            kind.expected,
            "export a module of your own, with its parts as methods",
        )


def compute_buffers(network: Any) -> None:
    """Computes the buffers that no checkpoint has, such as frequencies of rotary embeddings, in place.

    Raises:
        NotUnderstoodError: the network does not initialize one of them.
    """
    owners = dict.fromkeys(name.rpartition(".")[0] for name, _ in network.named_non_persistent_buffers())
    for owner in owners:
        module = network.get_submodule(owner)
        part = _initializer(network, owner)
        outer = [network.get_submodule(owner[:index]) for index, letter in enumerate(owner) if letter == "."]
        # its own code, or that of the modules around it
        unknown = _unknown_buffers(part, module, [module])
        if unknown and _unknown_buffers(part, module, [module, *reversed(outer)]):
            raise NotUnderstoodError(f'it does not initialize its buffer "{owner}.{unknown[0]}"')


def _unknown_buffers(network: Any, module: Any, initialized: Sequence[nn.Module]) -> list[str]:
    """Computes the buffers of a module, in place; returns the names of those that stay unknown.

    Args:
        network: the network with the module.
        module: the module.
        initialized: the modules that the network initializes for it.
    """
    # elements that nothing computes keep what they had
    before, after = (_computed(network, module, initialized, fill) for fill in (0, 1))
    return [name for name, buffer in after.items() if not torch.equal(before[name], buffer)]


def _initializer(network: Any, name: str) -> Any:
    """Returns the innermost network of transformers that a module is in: one of images has its own code."""
    result = network
    for index, letter in enumerate(name):
        if letter == ".":
            module = network.get_submodule(name[:index])
            result = module if hasattr(module, "_init_weights") else result
    return result


def _computed(
    network: Any, module: Any, initialized: Sequence[nn.Module], fill: int
) -> dict[str, torch.Tensor]:
    """Lets a network compute the buffers of a module, in place; returns them.

    Args:
        network: the network with the module.
        module: the module.
        initialized: the modules that the network initializes for it.
        fill: the value of their elements before.
    """
    for name in module._non_persistent_buffers_set:
        module._buffers[name] = torch.full_like(module._buffers[name], fill, device="cpu")
    try:
        for each in initialized:
            network._init_weights(each)
    except Exception as error:
        # each family has its own code
        text = f"its buffers cannot be computed: {type(error).__name__}: {first_line(error)}"
        raise NotUnderstoodError(text) from error
    return {name: module._buffers[name] for name in module._non_persistent_buffers_set}


def _keep_frequencies(module: Any) -> None:
    """Keeps rotary frequencies that would depend on the length: up to `context_limit`, they are these.

    The function inside the decorators does not enter and leave modes of autograd either, which torch.export
    would undo.
    """
    if hasattr(module, "rope_type"):
        module.__class__ = _undecorated(type(module))  # type: ignore[arg-type]


@functools.cache
def _undecorated(owner: type[nn.Module]) -> type[nn.Module]:
    members = {"__module__": owner.__module__, "forward": inspect.unwrap(owner.forward)}
    return type(owner.__name__, (owner,), members)


def unsupported(message: str, expected: str, help: str = "") -> DelegatecError:
    """Returns DC138."""
    return DelegatecError([Diagnostic("DC138", message, expected=expected, help=help)])
