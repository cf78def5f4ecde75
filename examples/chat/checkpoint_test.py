# SPDX-License-Identifier: Apache-2.0
"""The committed checkpoint predicts the held-out chapter, and its tokenizer keeps text as it is."""

from __future__ import annotations

from pathlib import Path

import perplexity
import pytest
import torch
import train
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerFast

HERE = Path(__file__).parent
CHECKPOINT = HERE / "checkpoint"
HELD_OUT = (HERE / "heldout.txt").read_text()


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(CHECKPOINT)


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    return AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32).eval()


def test_the_held_out_chapter_is_not_trained_on() -> None:
    trained = set((HERE / "novels.txt").read_text().splitlines())
    assert not trained & set(HELD_OUT.splitlines())


def test_the_model_predicts_the_held_out_chapter(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    tokens = torch.tensor(tokenizer.encode(HELD_OUT))
    assert perplexity.perplexity(model, tokens, model.config.max_position_embeddings) < 46


def test_perplexity_of_a_uniform_model_is_its_vocabulary(model: LlamaForCausalLM) -> None:
    uniform = LlamaForCausalLM(model.config)
    torch.nn.init.zeros_(uniform.lm_head.weight)
    tokens = torch.arange(1000)
    assert perplexity.perplexity(uniform, tokens, 300) == pytest.approx(train.VOCABULARY)


@pytest.mark.parametrize(
    "text",
    [HELD_OUT, "The ladies of Longbourn", "  two  spaces\n\nand\ttabs ", "naïve café — “quoted” 你好 🙂", ""],
)
def test_tokens_decode_to_the_text(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_script_writes_this_tokenizer(tokenizer: PreTrainedTokenizerFast) -> None:
    trained = train.train_tokenizer((HERE / "novels.txt").read_text())
    assert trained.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()


def test_an_answer_is_a_paragraph(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Generation ends after a line, in runners too: generation_config.json lists the tokens that end it."""
    prompt = tokenizer("Elizabeth", return_tensors="pt")
    answer = model.generate(**prompt, max_new_tokens=100, do_sample=False)[0]
    assert tokenizer.decode(answer).endswith(".\n")
    assert tokenizer.decode(model.generation_config.eos_token_id) == train.END_OF_TEXT + "\n"
