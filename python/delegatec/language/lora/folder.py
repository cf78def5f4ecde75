# SPDX-License-Identifier: Apache-2.0
"""The folder of an adapter as PEFT publishes it: `adapter_config.json` and `adapter_model.safetensors`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import first_line
from delegatec.language.folder import read_json, unreadable
from delegatec.language.lora.layers import DOWN, UP

CONFIG: Final = "adapter_config.json"
_WEIGHTS: Final = "adapter_model.safetensors"
_TENSOR: Final = re.compile(rf"base_model\.model\.(?P<layer>.+)\.(?P<matrix>{DOWN}|{UP})\.weight")
_FLOATS: Final = (torch.float32, torch.bfloat16, torch.float16)
# Fields that do not change what a published adapter computes, and those that are read here.
_KNOWN: Final = {
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_alpha",
    "lora_dropout",
    "lora_ga_config",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "use_rslora",
}
# Of `init_lora_weights`: others change the weights of the base model, too.
_INITIALIZATIONS: Final = (True, False, "gaussian", "eva", "orthogonal")


@dataclass(frozen=True)
class LowRank:
    """A change of a layer's weight: `up @ down`.

    Attributes:
        down: float32 [rank, input features].
        up: float32 [output features, rank], with the scale of the adapter.
    """

    down: Tensor
    up: Tensor


def read_adapter(path: str) -> dict[str, LowRank]:
    """Returns the changes of an adapter: name of a layer -> its change.

    Args:
        path: the folder.

    Raises:
        DelegatecError: DC115, a file is missing; DC116, one is damaged; DC117, the tensors do not match the
            configuration; DC138, an adapter of another kind.
    """
    config = read_json(path, CONFIG, "the configuration of the adapter")
    if problems := [*_config_problems(config)]:
        raise DelegatecError(Diagnostic("DC138", text, expected=expected) for text, expected in problems)
    matrices = _matrices(path)
    layers = {}
    for name, found in matrices.items():
        down, up = found.get(DOWN), found.get(UP)
        if down is None or up is None or not _is_pair(down, up):
            shapes = ", ".join(f"{each} {list(value.shape)}" for each, value in sorted(found.items()))
            raise _mismatch(f'"{name}" of {_WEIGHTS} has {shapes}', f"{DOWN} [r, n] and {UP} [m, r]")
        layers[name] = LowRank(down, up * _scale(config, name, len(down)))
    return layers


def _is_pair(down: Tensor, up: Tensor) -> bool:
    """Whether both are matrices of one rank, which is not 0."""
    return down.dim() == 2 and up.dim() == 2 and len(down) == up.shape[1] > 0


def _config_problems(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields what is not supported, and what is."""
    kind = config.get("peft_type")
    if kind != "LORA":
        yield f'{CONFIG} has peft_type = "{kind}"', '"LORA"'
        return
    if not isinstance(config.get("lora_alpha"), int | float):
        yield f"{CONFIG} has no lora_alpha", "a number"
    if not _is_pattern(config.get("alpha_pattern") or {}):
        yield (
            f"{CONFIG} has alpha_pattern = {config['alpha_pattern']!r}",
            "a number for each pattern of layers",
        )
    if (bias := config.get("bias", "none")) != "none":
        yield f'{CONFIG} has bias = "{bias}"', 'an adapter that was trained with bias = "none"'
    if (method := config.get("init_lora_weights", True)) not in _INITIALIZATIONS:
        text = f'{CONFIG} has init_lora_weights = "{method}", which changes the base model'
        yield text, "an adapter of the published base model: PEFT's save_pretrained converts it"
    for name in sorted({*config} - _KNOWN):
        if config[name]:
            yield f"{CONFIG} has {name} = {config[name]!r}", f"an adapter without {name}"


def _is_pattern(value: Any) -> bool:
    """Whether a value has numbers by regular expression."""
    if not isinstance(value, dict) or not all(isinstance(each, int | float) for each in value.values()):
        return False
    try:
        return all(map(re.compile, value))
    except re.error:
        return False


def _scale(config: Mapping[str, Any], layer: str, rank: int) -> float:
    """Returns the factor of the product of both matrices of a layer."""
    patterns: Mapping[str, float] = config.get("alpha_pattern") or {}
    alphas = (alpha for key, alpha in patterns.items() if re.match(rf"(.*\.)?({key})$", layer))
    alpha: float = next(alphas, config["lora_alpha"])
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _matrices(path: str) -> dict[str, dict[str, Tensor]]:
    """Returns name of a layer -> its matrices in float32 by name."""
    file = os.path.join(path, _WEIGHTS)
    if not os.path.exists(file):
        text = f"the adapter has no {_WEIGHTS}: its files are {', '.join(sorted(os.listdir(path))[:8])}"
        help = "list it; PEFT's save_pretrained writes it in place of adapter_model.bin"
        raise DelegatecError([Diagnostic("DC115", text, help=help)])
    try:
        tensors = load_file(file)
    except (SafetensorError, OSError) as error:
        raise unreadable(file, first_line(error)) from error
    result: dict[str, dict[str, Tensor]] = {}
    others = []
    for name, value in tensors.items():
        match = _TENSOR.fullmatch(name)
        if match is None or value.dtype not in _FLOATS:
            others.append(f'"{name}" {str(value.dtype).removeprefix("torch.")}{list(value.shape)}')
        else:
            result.setdefault(match["layer"], {})[match["matrix"]] = value.float()
    if others or not result:
        what = (
            f"tensors besides adapters of linear layers: {', '.join(others[:4])}" if others else "no tensors"
        )
        raise _mismatch(f"{_WEIGHTS} has {what}", f"base_model.model.LAYER.{DOWN}.weight and {UP}, in float")
    return result


def _mismatch(text: str, expected: str) -> DelegatecError:
    return DelegatecError([Diagnostic("DC117", text, expected=expected)])
