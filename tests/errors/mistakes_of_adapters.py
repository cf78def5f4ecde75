# SPDX-License-Identifier: Apache-2.0
"""Adapters of other models, and weights outside of a program that are not named as such."""

from __future__ import annotations

import io
import json
from typing import Any, Final

import torch
from mistake import Mistake, export, net, run, usage
from safetensors.torch import save

from delegatec.program import write_flat_tensors

_LAYER: Final = "layers.0.q_proj"
_CONFIG: Final = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}
_COMMAND: Final = (
    "adapter --label=//pkg:pirate --base=llama.ptd --ptd=pirate.ptd "
    "--checkpoint=pirate/adapter_config.json --checkpoint=pirate/adapter_model.safetensors"
)
_INIT: Final = "self.register_buffer('down', torch.zeros(3))"
_ARGUMENTS: Final = "Net(), (torch.ones(2, 3),), external_weights=['down']"


def _base() -> bytes:
    """Returns the data file of a model."""
    file = io.BytesIO()
    shapes = {f"network.{_LAYER}.lora_A": (4, 8), f"network.{_LAYER}.lora_B": (8, 4)}
    write_flat_tensors({name: torch.zeros(shape) for name, shape in shapes.items()}, file)
    return file.getvalue()


def folder(
    does: str,
    code: str,
    *words: str,
    layer: str = _LAYER,
    rank: int = 2,
    features: int = 8,
    config: dict[str, Any] | None = None,
) -> Mistake:
    """An adapter that `adapter` refuses."""
    tensors = {
        f"base_model.model.{layer}.lora_A.weight": torch.zeros(rank, features),
        f"base_model.model.{layer}.lora_B.weight": torch.zeros(8, rank),
    }
    files = {
        "llama.ptd": _base(),
        "pirate/adapter_config.json": json.dumps(_CONFIG | (config or {})),
        "pirate/adapter_model.safetensors": save(tensors),
    }
    return run(does, code, *words, command=_COMMAND, files=files)


def _with_external_weight(does: str, code: str, *words: str, command: str) -> Mistake:
    """A verb that refuses a model with an external weight."""
    exporting = export("", "").command
    files = {"pkg/net.py": net("return x + self.down", _INIT, _ARGUMENTS)}
    return run(does, code, *words, command=command, files=files, first=exporting)


ADAPTERS: Final = (
    folder("has an adapter of another kind", "DC138", 'peft_type = "IA3"', config={"peft_type": "IA3"}),
    folder(
        "has an adapter with complete layers",
        "DC138",
        "modules_to_save = ['lm_head']",
        config={"modules_to_save": ["lm_head"]},
    ),
    folder("has an adapter of a larger rank", "DC117", "rank 5", "at most adapter_rank = 4", rank=5),
    folder(
        "has an adapter of other layers",
        "DC117",
        "the adapter changes k_proj",
        "adapter_modules of the model: q_proj",
        layer="layers.0.k_proj",
    ),
    folder(
        "has an adapter of a larger model",
        "DC117",
        'a weight [8, 9] of "layers.0.q_proj", which is [8, 8] in the model',
        features=9,
    ),
    folder(
        "has an adapter of a deeper model",
        "DC117",
        '"layers.7.q_proj", which the model does not have',
        layer="layers.7.q_proj",
    ),
    run(
        "takes the weights of another model for a base",
        "DC117",
        "the model has no adapters",
        "set adapter_rank and adapter_modules",
        command=_COMMAND.replace("llama.ptd", "good.ptd"),
        files={
            "pirate/adapter_config.json": json.dumps(_CONFIG),
            "pirate/adapter_model.safetensors": save(
                {
                    f"base_model.model.{_LAYER}.lora_A.weight": torch.zeros(2, 8),
                    f"base_model.model.{_LAYER}.lora_B.weight": torch.zeros(8, 2),
                }
            ),
        },
        first=("weights", "--program=good.pt2", "--ptd=good.ptd"),
    ),
    usage(
        "tests an adapter without its weights",
        "--adapter needs --ptd",
        command="generate --pte=good.pte --prompt=a --checkpoint=llama/config.json --adapter=a.json",
        files={"llama/config.json": "{}", "a.json": "{}"},
    ),
)
EXTERNAL: Final = (
    export(
        "names an external weight that there is not",
        "DC108",
        "external_weights of delegatec.Model is 'dwn'",
        "did you mean 'down'?",
        init=_INIT,
        arguments=_ARGUMENTS.replace("['down']", "['dwn']"),
    ),
    export(
        "passes one name for a list of external weights",
        "DC108",
        "external_weights of delegatec.Model is 'down'",
        "a list of names",
        init=_INIT,
        arguments=_ARGUMENTS.replace("['down']", "'down'"),
    ),
    _with_external_weight(
        "lowers a model with external weights to a program that contains them",
        "DC423",
        'Model.external_weights has no effect: the program would contain "down"',
        "external_weights = True",
        command="lower --label=//pkg:net --program=net.pt2 --pte=net.pte",
    ),
    _with_external_weight(
        "quantizes a model with external weights",
        "DC134",
        'the model has external weights, such as "down"',
        command="quantize --label=//pkg:net --program=net.pt2 --pt2=quantized.pt2 --activation=float",
    ),
)
TABLE: Final = {"Adapters": ADAPTERS, "External weights": EXTERNAL}
