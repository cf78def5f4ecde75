# SPDX-License-Identifier: Apache-2.0
"""Trains the digit network and writes its checkpoint.

    bazel run //examples/digits:train -- $PWD/examples/digits/digits.safetensors

The same machine type and torch version give the same bytes; this script wrote the committed checkpoint.
"""

from __future__ import annotations

import sys

import torch
from dataset import Pictures, load_split
from network import DigitNetwork
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

EPOCHS = 30
BATCH_SIZE = 64


def train(pictures: Pictures) -> DigitNetwork:
    """Returns a network trained on ``pictures``, in eval mode."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # the order of float additions depends on the number of threads
    network = DigitNetwork()
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-3, weight_decay=1e-2)
    steps = EPOCHS * -(-len(pictures.digits) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(pictures.digits)).split(BATCH_SIZE):
            optimizer.zero_grad()
            cross_entropy(network(pictures.pixels[chosen]), pictures.digits[chosen]).backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def accuracy(network: torch.nn.Module, pictures: Pictures) -> float:
    """Returns the accuracy of ``network`` on ``pictures``, 0 to 1."""
    with torch.no_grad():
        read = network(pictures.pixels).argmax(dim=1)
    return (read == pictures.digits).float().mean().item()


def main(path: str) -> None:
    """Trains, prints both accuracies, and writes the checkpoint to ``path``."""
    train_pictures, test_pictures = load_split()
    network = train(train_pictures)
    print(f"train {accuracy(network, train_pictures):.4f}  test {accuracy(network, test_pictures):.4f}")
    save_file(network.state_dict(), path)


if __name__ == "__main__":
    main(sys.argv[1])
