# SPDX-License-Identifier: Apache-2.0
"""Writes the tokenizer of the GGUF file as tokenizer.json, which ExecuTorch's runner reads.

Usage: write_tokenizer GGUF OUTPUT
"""

from __future__ import annotations

import sys
from typing import Any

from gguf import GGUFReader, TokenType
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers


def tokenizer_of(reader: GGUFReader) -> Tokenizer:
    """Returns the byte-level BPE tokenizer of a file.

    The file names the rule that splits a text, "smollm", and the rule itself is in llama.cpp: digits are
    separate tokens, the rest is split as in GPT-2.
    """

    def field(name: str) -> Any:
        return reader.get_field(f"tokenizer.ggml.{name}").contents()

    assert (field("model"), field("pre")) == ("gpt2", "smollm")
    tokens = field("tokens")
    merges = [tuple(merge.split(" ")) for merge in field("merges")]
    tokenizer = Tokenizer(models.BPE({token: id for id, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True)
            for token, type in zip(tokens, field("token_type"), strict=True)
            if type == TokenType.CONTROL
        ]
    )
    return tokenizer


if __name__ == "__main__":
    tokenizer_of(GGUFReader(sys.argv[1])).save(sys.argv[2])
