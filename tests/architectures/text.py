# SPDX-License-Identifier: Apache-2.0
"""Encoders of text."""

from __future__ import annotations

from tests.architectures.case import Case, ones, tokens

_SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}
_INPUTS = {"input_ids": tokens(2, 12), "attention_mask": ones(2, 12, padding=3)}


def _encoder(
    name: str, stem: str, model: str = "", refusal: tuple[str, str] | None = None, **sizes: object
) -> Case:
    return Case(
        name, "text", model or f"{stem}Model", f"{stem}Config", {**_SIZES, **sizes}, _INPUTS, refusal=refusal
    )


TEXT = (
    _encoder("BERT", "Bert"),
    _encoder("RoBERTa", "Roberta"),
    _encoder("XLM-R XL", "XLMRobertaXL"),
    _encoder("DistilBERT", "DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=37),
    _encoder("ALBERT", "Albert", embedding_size=16),
    _encoder("ELECTRA", "Electra", embedding_size=16),
    _encoder("MPNet", "MPNet"),
    _encoder("DeBERTa", "Deberta", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    _encoder("DeBERTa v2", "DebertaV2", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    _encoder("MobileBERT", "MobileBert", embedding_size=32, intra_bottleneck_size=32, true_hidden_size=32),
    _encoder("SqueezeBERT", "SqueezeBert", embedding_size=32, intermediate_size=48),
    _encoder("ConvBERT", "ConvBert", embedding_size=16),
    _encoder("RoFormer", "RoFormer", embedding_size=16),
    _encoder("FNet", "FNet"),
    Case(
        "Funnel",
        "text",
        "FunnelModel",
        "FunnelConfig",
        {"vocab_size": 99, "block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 37},
        _INPUTS,
    ),
    _encoder(
        "Longformer",
        "Longformer",
        attention_window=4,
        refusal=("DC112", "positions of global attention are looked for among values"),
    ),
    _encoder("BigBird", "BigBird", attention_type="original_full"),
    _encoder("CANINE", "Canine", downsampling_rate=4, local_transformer_stride=12, upsampling_kernel_size=4),
    _encoder("ModernBERT", "ModernBert", pad_token_id=0, local_attention=4),
    _encoder("ESM", "Esm", pad_token_id=1, mask_token_id=2),
    _encoder("I-BERT", "IBert"),
    _encoder("LayoutLM", "LayoutLM"),
    Case(
        "XLNet",
        "text",
        "XLNetModel",
        "XLNetConfig",
        {"vocab_size": 99, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 37, "use_mems_eval": False},
        _INPUTS,
    ),
    _encoder("XLM", "XLM", emb_dim=32, n_layers=2, n_heads=4),
    _encoder("BERT, token classes", "Bert", "BertForTokenClassification"),
    _encoder("NomicBERT", "NomicBert"),
    _encoder("EuroBERT", "EuroBert", num_key_value_heads=2, pad_token_id=0),
)
