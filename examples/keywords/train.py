# SPDX-License-Identifier: Apache-2.0
"""Trains the keyword spotter and writes its checkpoint.

    bazel run //examples/keywords:train -- $PWD/examples/keywords/keywords.safetensors

The same machine type and torch version give the same bytes; this script wrote the committed checkpoint.
"""

from __future__ import annotations

import sys

import torch
from ds_cnn import KeywordNetwork
from safetensors.torch import save_file
from speech import clips
from torch.nn.functional import cross_entropy

EPOCHS = 12
BATCH_SIZE = 50
TRAIN_SEED, TEST_SEED = 0, 1


def train(cepstra: torch.Tensor, words: torch.Tensor) -> KeywordNetwork:
    """Returns a network trained on clips, in eval mode."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # the order of float additions depends on the number of threads
    network = KeywordNetwork()
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=1e-2)
    steps = EPOCHS * -(-len(words) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(words)).split(BATCH_SIZE):
            optimizer.zero_grad()
            cross_entropy(network(cepstra[chosen]), words[chosen]).backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def accuracy(network: torch.nn.Module, cepstra: torch.Tensor, words: torch.Tensor) -> float:
    """Returns the share of clips whose word a network finds."""
    with torch.no_grad():
        return (network(cepstra).argmax(1) == words).float().mean().item()


def main(path: str) -> None:
    """Trains, prints the accuracies, and writes the checkpoint to `path`."""
    train_clips, test_clips = clips(120, TRAIN_SEED), clips(40, TEST_SEED)
    network = train(*train_clips)
    print(f"train {accuracy(network, *train_clips):.4f}  test {accuracy(network, *test_clips):.4f}")
    save_file(network.state_dict(), path)


if __name__ == "__main__":
    main(sys.argv[1])
