# SPDX-License-Identifier: Apache-2.0
"""Folders of checkpoints that are incomplete, damaged or not supported, and settings that do not fit."""

from __future__ import annotations

import json
from typing import Any, Final

import torch
from mistake import Mistake, export, run, usage
from safetensors.torch import save

_CONFIG: Final[dict[str, Any]] = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "num_key_value_heads": 2,
    "vocab_size": 11,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}
_LAYER: Final = "model.layers.0"
_SHAPES: Final = {
    "model.embed_tokens.weight": (11, 8),
    "model.norm.weight": (8,),
    **{f"{_LAYER}.self_attn.{name}_proj.weight": (8, 8) for name in "qkvo"},
    **{f"{_LAYER}.mlp.{name}_proj.weight": (16, 8) for name in ("gate", "up")},
    f"{_LAYER}.mlp.down_proj.weight": (8, 16),
    **{f"{_LAYER}.{name}_layernorm.weight": (8,) for name in ("input", "post_attention")},
}
_STORE: Final = "checkpoint --label=//pkg:llama --weights-file=net.safetensors --checkpoint=llama/config.json"
_WITH_WEIGHTS: Final = f"{_STORE} --checkpoint=llama/model.safetensors"


def _weights(**shapes: tuple[int, ...] | None) -> bytes:
    """Returns weights of a network; those that are given have other shapes, or are missing."""
    changed = {**_SHAPES, **{name.replace("__", "."): shape for name, shape in shapes.items()}}
    return save({name: torch.zeros(shape) for name, shape in changed.items() if shape})


def folder(
    does: str,
    code: str,
    *words: str,
    flags: str = "",
    config: dict[str, Any] | None = None,
    weights: bytes | str = b"",
    **more: Any,
) -> Mistake:
    """A checkpoint that `checkpoint` refuses."""
    files = {
        "llama/config.json": json.dumps(_CONFIG | (config or {})),
        "llama/model.safetensors": weights or _weights(),
    }
    return run(does, code, *words, command=f"{_WITH_WEIGHTS} {flags}", files=files, **more)


_IMAGES: Final = "checkpoint --label=//pkg:llava --kind=vision_language --weights-file=net.safetensors"
_LLAVA: Final = {
    "model_type": "llava",
    "text_config": _CONFIG,
    "vision_config": {
        "model_type": "clip_vision_model",
        "hidden_size": 8,
        "image_size": 16,
        "intermediate_size": 8,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "patch_size": 4,
    },
}


def images(does: str, code: str, *words: str, preprocessor: dict[str, Any] | None, config: Any) -> Mistake:
    """A checkpoint of images and text that `checkpoint` refuses."""
    files: dict[str, Any] = {"llava/config.json": json.dumps(config), "llava/model.safetensors": save({})}
    if preprocessor is not None:
        files["llava/preprocessor_config.json"] = json.dumps(preprocessor)
    command = " ".join([_IMAGES, *(f"--checkpoint={name}" for name in files)])
    return run(does, code, *words, command=command, files=files)


FOLDERS: Final = (
    run(
        "lists a checkpoint without its configuration",
        "DC115",
        "the checkpoint has no config.json",
        command="checkpoint --label=//pkg:llama --weights-file=net.safetensors "
        "--checkpoint=llama/model.safetensors",
        files={"llama/model.safetensors": _weights()},
    ),
    run(
        "lists a checkpoint with weights in pickles",
        "DC115",
        "no weights, but pytorch_model.bin",
        "save_pretrained",
        command=f"{_STORE} --checkpoint=llama/pytorch_model.bin",
        files={"llama/config.json": json.dumps(_CONFIG), "llama/pytorch_model.bin": b"PK\x03\x04"},
    ),
    folder(
        "has weights that Git LFS did not fetch",
        "DC116",
        "git lfs pull",
        weights="version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    ),
    folder(
        "combines a configuration with the weights of another model",
        "DC117",
        '"model.norm.weight" of the checkpoint has shape [9], and the configuration says [8]',
        'the checkpoint has an unknown tensor "extra" of shape [2]',
        weights=_weights(model__norm__weight=(9,), extra=(2,)),
    ),
    folder(
        "has half of the weights",
        "DC117",
        'the checkpoint lacks "model.layers.0.mlp.down_proj.weight" of shape [8, 16]',
        weights=_weights(model__layers__0__mlp__down_proj__weight=None),
    ),
    folder(
        "names an unknown family",
        "DC138",
        'model_type "lama" of config.json is not a language model',
        "did you mean 'llama'?",
        config={"model_type": "lama"},
    ),
    images(
        "exports a folder of text only as images and text",
        "DC138",
        'the family "llama" of config.json is not supported: it has no vision_config',
        "use language_model for a checkpoint of text only",
        preprocessor={},
        config=_CONFIG,
    ),
    images(
        "lists a checkpoint of images without its preprocessor",
        "DC115",
        "the checkpoint has no preprocessor_config.json",
        preprocessor=None,
        config=_LLAVA,
    ),
    images(
        "combines a preprocessor with another network",
        "DC117",
        "makes images of 24 x 24 pixels, and the configuration says 16 x 16",
        preprocessor={"size": {"height": 24, "width": 24}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
        config=_LLAVA,
    ),
    images(
        "exports a family whose images attend to later text",
        "DC138",
        'the family "paligemma" of config.json is not supported: an image attends to the text after it',
        preprocessor={},
        config=_LLAVA | {"model_type": "paligemma"},
    ),
    folder(
        "takes a language model for one of speech",
        "DC138",
        'model_type "llama" of config.json is not a model of speech recognition',
        "expected: a checkpoint of whisper or moonshine",
        flags="--kind=speech_to_text",
    ),
    usage(
        "lists files of two folders",
        "several files named config.json",
        command=f"{_STORE} --checkpoint=other/config.json",
        files={"llama/config.json": "{}", "other/config.json": "{}"},
    ),
)
SETTINGS: Final = (
    folder(
        "requests groups that do not divide the features",
        "DC134",
        'group_size = 5 does not divide the 8 input features of "model.layers.0.self_attn.q_proj"',
        flags="--weights=int4 --group-size=5",
        lines=30,
    ),
    folder(
        "misspells the dtype of weights, and requests groups",
        "DC130",
        "did you mean 'int4'?",
        flags="--weights=int_4 --group-size=1",
        lines=8,
    ),
    folder(
        "quantizes operands of float layers",
        "DC136",
        'needs weights = "int8" or "int4"',
        flags="--activation=dynamic_int8",
    ),
    export(
        "requests a long context, many drafts, and experts",
        "DC138",
        "context = 65 is beyond the 64 positions of the model",
        "prefill = 70 is not between 1 and context = 65",
        "draft_tokens = 70 is not between 0 and prefill = 70",
        'experts = "matrices" has no effect: the network has no experts',
        source="import delegatec\n\n\ndef build():\n"
        '    return delegatec.language_model("llama", context=65, prefill=70, draft_tokens=70, '
        'experts="matrices")\n',
        flags=("--data=pkg/llama",),
        lines=16,
        files={"pkg/llama/config.json": json.dumps(_CONFIG), "pkg/llama/model.safetensors": _weights()},
    ),
    export(
        "does not declare the folder of a checkpoint",
        "DC115",
        'undeclared data file "llama"',
        source='import delegatec\n\n\ndef build():\n    return delegatec.language_model("llama")\n',
    ),
    usage(
        "compares the perplexity of a text without a limit",
        "--text and --maximum-perplexity-ratio need each other",
        command="generate --pte=good.pte --checkpoint=llama/config.json --text=a.txt",
        files={"llama/config.json": "{}", "a.txt": "The sea"},
    ),
    usage(
        "passes an image without a prompt",
        "--image has no effect without --prompt",
        command="generate --pte=good.pte --checkpoint=llama/config.json --text=a.txt --image=a.ppm "
        "--maximum-perplexity-ratio=2",
        files={"llama/config.json": "{}", "a.txt": "The sea", "a.ppm": "P6"},
    ),
    usage(
        "tests a draft model without its tokenizer",
        "--draft and --draft-checkpoint need each other",
        command="generate --pte=good.pte --checkpoint=llama/config.json --prompt=a --draft=good.pte",
        files={"llama/config.json": "{}"},
    ),
    usage(
        "limits the tokens of no draft model",
        "--minimum-acceptance has no effect without --draft",
        command="generate --pte=good.pte --checkpoint=llama/config.json --prompt=a --minimum-acceptance=0.5",
        files={"llama/config.json": "{}"},
    ),
    usage(
        "tests a model of speech without a recording",
        "--audio is not given",
        command="transcribe --pte=good.pte --checkpoint=whisper/config.json",
        files={"whisper/config.json": "{}"},
    ),
    usage(
        "tests a language model without a prompt",
        "neither --prompt nor --text is given",
        command="generate --pte=good.pte --checkpoint=llama/config.json",
        files={"llama/config.json": "{}"},
    ),
)
TABLE: Final = {"Language models": FOLDERS, "Settings of language models": SETTINGS}
