# SPDX-License-Identifier: Apache-2.0
"""The float model of a checkpoint's folder, as transformers runs it: the oracle of programs."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import first_line
from delegatec.language.folder import read_json, unreadable
from delegatec.language.gguf_file import GgufFile
from delegatec.language.library import family_of
from delegatec.language.lora.folder import LowRank
from delegatec.language.lora.layers import is_transposed
from delegatec.language.sources import read_checkpoint

_TOKENIZER_CONFIG: Final = "tokenizer_config.json"


class TextTokenizer:
    """The tokenizer of a folder.

    Args:
        directory: a directory with `tokenizer.json`.

    Raises:
        DelegatecError: DC115, there is none; DC116, it is damaged.
    """

    def __init__(self, directory: str) -> None:
        from tokenizers import Tokenizer

        self.path = os.path.join(directory, "tokenizer.json")
        if not os.path.exists(self.path):
            text = "the checkpoint has no tokenizer.json"
            help = "list it in checkpoint: the stock runner reads it, too"
            raise DelegatecError([Diagnostic("DC115", text, help=help)])
        try:
            self._tokenizer = Tokenizer.from_file(self.path)
        except Exception as error:  # the library raises nothing more special
            raise unreadable(self.path, first_line(error)) from error
        self.bos = self._bos(directory)

    def _bos(self, directory: str) -> list[int]:
        """Returns the token that begins each text, if tokenizer_config.json says so."""
        if not os.path.exists(os.path.join(directory, _TOKENIZER_CONFIG)):
            return []
        config = read_json(directory, _TOKENIZER_CONFIG, "")
        name = config.get("bos_token")
        name = name.get("content") if isinstance(name, dict) else name
        found = self._tokenizer.token_to_id(name) if config.get("add_bos_token") and name else None
        return [] if found is None else [found]

    def check_same(self, other: TextTokenizer) -> None:
        """Raises DC117 if the tokens of another model have other numbers."""
        ours, theirs = (each._tokenizer.get_vocab(with_added_tokens=True) for each in (self, other))
        if ours == theirs:
            return
        name = min(each for each in ours.keys() | theirs.keys() if ours.get(each) != theirs.get(each))
        text = f"token {name!r} of the draft model is {theirs.get(name)}, and {ours.get(name)} of the model"
        expected = "the tokenizer of the model"
        raise DelegatecError(
            [Diagnostic("DC117", text, expected=expected, help="take a model of the same family")]
        )

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a text, without special tokens around it, as the stock runner does."""
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens, also of special ones, as the stock runner does."""
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=False)
        return text


class Reference:
    """The float model.

    Attributes:
        eos_ids: ids of tokens that end a text.

    Args:
        directory: the folder of its checkpoint.
        adapter: name of a layer -> the change of its weight.

    Raises:
        DelegatecError: DC115, DC116, the folder is incomplete or damaged; DC117, the adapter changes layers
            that the network does not have.
    """

    _AUTO: ClassVar = "AutoModelForCausalLM"

    def __init__(self, directory: str, adapter: Mapping[str, LowRank] | None = None) -> None:
        transformers: Any = importlib.import_module("transformers")
        transformers.utils.logging.disable_progress_bar()
        folder = read_checkpoint(directory)
        self.eos_ids = frozenset(folder.description.eos_ids)
        auto: Any = getattr(transformers, self._AUTO)
        network = (
            _of_gguf(folder, auto)
            if isinstance(folder, GgufFile)
            else auto.from_pretrained(
                directory, dtype=torch.float32, local_files_only=True, use_safetensors=True
            )
        )
        self._network: Any = network.eval()
        _merge(self._network, adapter or {})

    @property
    def is_recurrent(self) -> bool:
        """Whether it has a state that each token changes, besides rows of keys and values."""
        return any(isinstance(each, self._caches().LinearAttentionCacheLayerMixin) for each in self._layers())

    @property
    def is_bounded(self) -> bool:
        """Whether a layer attends to all earlier tokens, so that a cache of them bounds a text."""
        rows = self._caches().DynamicLayer
        return any(isinstance(each, rows) and not each.is_sliding for each in self._layers())

    def _layers(self) -> Sequence[Any]:
        """Returns the library's caches of its layers."""
        layers: Sequence[Any] = (
            self._caches().DynamicCache(config=self._network.config.get_text_config()).layers
        )
        return layers

    def _caches(self) -> Any:
        return importlib.import_module("transformers.cache_utils")

    def continuation(self, tokens: Sequence[int], count: int) -> list[int]:
        """Returns the greedy continuation of a text, up to the first token that ends it.

        Args:
            tokens: the text.
            count: the most tokens to return.
        """
        transformers: Any = importlib.import_module("transformers")
        settings = transformers.GenerationConfig(
            do_sample=False,
            eos_token_id=sorted(self.eos_ids) or None,
            max_new_tokens=count,
            pad_token_id=0,
        )
        inputs = self._inputs(tokens)
        with torch.no_grad():
            found = self._network.generate(
                **inputs, attention_mask=torch.ones_like(inputs["input_ids"]), generation_config=settings
            )
        result: list[int] = found[0, len(tokens) :].tolist()
        return result

    def logits(self, tokens: Sequence[int]) -> Tensor:
        """Returns the logits after each token, float32 [tokens, vocabulary]."""
        with torch.no_grad():
            result: Tensor = self._network(**self._inputs(tokens)).logits[0].float()
        return result

    def _inputs(self, tokens: Sequence[int]) -> dict[str, Tensor]:
        """Returns the arguments of the network for a text."""
        return {"input_ids": torch.tensor([list(tokens)])}


def _merge(network: Any, adapter: Mapping[str, LowRank]) -> None:
    """Changes weights of a network, in place."""
    layers = dict(network.named_modules())
    for name, change in adapter.items():
        if name not in layers:
            raise DelegatecError(
                [Diagnostic("DC117", f'the adapter changes "{name}", which the model lacks')]
            )
        product = change.up @ change.down
        with torch.no_grad():
            # a tied embedding does not change
            weight = layers[name].weight.detach().clone()
            weight += product.T if is_transposed(layers[name]) else product
            layers[name].weight = torch.nn.Parameter(weight, requires_grad=False)


def _of_gguf(file: GgufFile, auto: Any) -> Any:
    """Returns a network with the weights of a GGUF file, as transformers dequantizes them."""
    transformers: Any = importlib.import_module("transformers")
    config = transformers.CONFIG_MAPPING[family_of(file.description)].from_dict(dict(file.description.config))
    network = auto.from_config(config, dtype=torch.float32)
    library: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    parsed = library.load_gguf_checkpoint(file.path, return_tensors=True, model_to_load=network)
    network.load_state_dict(parsed["tensors"], strict=False)
    network.tie_weights()
    return network
