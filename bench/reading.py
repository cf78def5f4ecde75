# SPDX-License-Identifier: Apache-2.0
"""CPU time of reading `.pt2` files, ours and `torch.export.load`, as a table.

    bazel run //bench:reading -- FILE.pt2...

Without files, programs of some models of `transformers` with few layers, and ResNet-50, are exported first.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any, Final

import torch

import delegatec
from delegatec.frontend import archive

# The best of several runs: others include imports, and work of the machine.
RUNS: Final = 3


def models() -> dict[str, delegatec.Model]:
    """Returns the models to export by name."""
    import transformers

    ids, image = torch.ones(1, 16, dtype=torch.int64), torch.ones(1, 3, 224, 224)
    small: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4}
    text = {
        **small,
        "intermediate_size": 128,
        "num_key_value_heads": 2,
        "vocab_size": 512,
        "use_cache": False,
    }
    qwen = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**text))
    gpt = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=64, n_layer=4, n_head=4, vocab_size=512, use_cache=False)
    )
    resnet = transformers.ResNetForImageClassification(transformers.ResNetConfig())
    swin = transformers.SwinForImageClassification(transformers.SwinConfig())
    return {
        "ResNet-50": delegatec.Model(resnet, (image,)),
        "Swin": delegatec.Model(swin, (image,)),
        "Qwen2": delegatec.Model(qwen, (ids,)),
        "GPT-2": delegatec.Model(gpt, (ids,)),
    }


def seconds(read: Callable[[str], Any], path: str) -> float:
    """Returns the CPU seconds of reading a file."""
    found = []
    for _ in range(RUNS):
        start = time.process_time()
        read(path)
        found.append(time.process_time() - start)
    return min(found)


def main(arguments: list[str]) -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        paths = {os.path.basename(path): path for path in arguments}
        if not paths:
            for name, model in models().items():
                paths[name] = os.path.join(folder, f"{name}.pt2")
                archive.save(delegatec.export(model), paths[name])
        print(
            "| program | size in MB | ours in s | torch.export.load in s | share |\n| --- "
            + "| ---: " * 4
            + "|"
        )
        for name, path in paths.items():
            ours, theirs = seconds(archive.load, path), seconds(torch.export.load, path)
            size = os.path.getsize(path) / 1e6
            print(f"| {name} | {size:.1f} | {ours:.3f} | {theirs:.3f} | {ours / theirs:.2f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
