# SPDX-License-Identifier: Apache-2.0
"""Trains the tokenizer and the language model, and writes them as a published checkpoint.

    bazel run //examples/chat:train -- $PWD/examples/chat/checkpoint

The same machine type and versions of torch and transformers give the same bytes; this script wrote the
committed folder. It takes 11 minutes of one core with bfloat16 instructions.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from perplexity import perplexity
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT = 512
VOCABULARY = 2048
END_OF_TEXT = "<|endoftext|>"

EPOCHS = 12
BATCH_SIZE = 4
LEARNING_RATE = 4e-3
WARMUP = 0.05

HERE = Path(__file__).parent


def train_tokenizer(text: str) -> PreTrainedTokenizerFast:
    """Returns a byte-level BPE tokenizer of ``text``."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text.splitlines(), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def network(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Returns an untrained Llama of 2.4 million parameters for the tokens of ``tokenizer``."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=5,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = LlamaForCausalLM(config)
    # A paragraph is an answer: generation ends at the end of a line, too.
    ends = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("Ċ")]
    model.generation_config = GenerationConfig(bos_token_id=config.bos_token_id, eos_token_id=ends)
    return model


def train(model: LlamaForCausalLM, tokens: torch.Tensor) -> None:
    """Trains ``model`` on windows of ``tokens`` [n], which begin elsewhere in each epoch."""
    decayed = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        betas=(0.9, 0.95),
    )
    windows = (len(tokens) - CONTEXT - 1) // CONTEXT
    steps = EPOCHS * (windows // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=LEARNING_RATE, total_steps=steps, pct_start=WARMUP, cycle_momentum=False
    )
    model.train()
    for _ in range(EPOCHS):
        start = int(torch.randint(CONTEXT, ()))
        inputs = tokens[start : start + windows * CONTEXT].view(windows, CONTEXT)
        targets = tokens[start + 1 : start + 1 + windows * CONTEXT].view(windows, CONTEXT)
        for chosen in torch.randperm(windows)[: windows // BATCH_SIZE * BATCH_SIZE].split(BATCH_SIZE):
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(inputs[chosen], use_cache=False).logits
                loss = cross_entropy(logits.flatten(0, 1), targets[chosen].flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()


def main(directory: str) -> None:
    """Trains, writes the folder ``directory``, and prints the held-out chapter's perplexity and an answer."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # the order of float additions depends on the number of threads
    text, held_out = (HERE / "novels.txt").read_text(), (HERE / "heldout.txt").read_text()
    chapters = text.split("\n\n")
    tokenizer = train_tokenizer(text)
    tokens = torch.tensor(
        [token for chapter in chapters for token in tokenizer.encode(chapter + "\n" + END_OF_TEXT)]
    )
    model = network(tokenizer)
    train(model, tokens)
    model = model.to(torch.bfloat16).eval()
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    model = model.float()
    print("perplexity", perplexity(model, torch.tensor(tokenizer.encode(held_out)), CONTEXT))
    prompt = tokenizer("The ladies", return_tensors="pt")
    print(tokenizer.decode(model.generate(**prompt, max_new_tokens=100, do_sample=False)[0]))


if __name__ == "__main__":
    main(sys.argv[1])
