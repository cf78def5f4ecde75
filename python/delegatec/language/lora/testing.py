# SPDX-License-Identifier: Apache-2.0
"""Folders of adapters for tests, with the weights that a network has with each."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from transformers.pytorch_utils import Conv1D


def write_adapter(
    folder: Path, network: Any, modules: Sequence[str], *, rank: int = 4, seed: int = 1, **config: Any
) -> Any:
    """Writes the folder of an adapter with random weights; returns the network with changed weights.

    Args:
        folder: the directory to write.
        network: the network, which stays as it is.
        modules: last parts of the names of the layers that it changes.
        rank: of its matrices.
        seed: of its values.
        **config: fields of its configuration.
    """
    folder.mkdir(exist_ok=True)
    fields = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": 6,
        "lora_dropout": 0.1,
        "target_modules": list(modules),
        **config,
    }
    (folder / "adapter_config.json").write_text(json.dumps(fields))
    scale = fields["lora_alpha"] / (rank**0.5 if fields.get("use_rslora") else rank)
    generator = torch.Generator().manual_seed(seed)
    changed, tensors = copy.deepcopy(network), {}
    for name, layer in changed.named_modules():
        if name.rpartition(".")[2] in modules:
            is_transposed = isinstance(layer, Conv1D)
            rows, columns = layer.weight.T.shape if is_transposed else layer.weight.shape
            down = torch.randn(rank, columns, generator=generator) * 0.2
            up = torch.randn(rows, rank, generator=generator) * 0.2
            tensors[f"base_model.model.{name}.lora_A.weight"] = down
            tensors[f"base_model.model.{name}.lora_B.weight"] = up
            change = scale * (up @ down)
            layer.weight = nn.Parameter(layer.weight.detach() + (change.T if is_transposed else change))
    save_file(tensors, folder / "adapter_model.safetensors")
    return changed
