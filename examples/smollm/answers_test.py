# SPDX-License-Identifier: Apache-2.0
"""The stock runner answers a question with the published model."""

from __future__ import annotations

from pathlib import Path

from runfiles import Runfiles

from executorch_runtime.text_runner import ExecutorchTextRunner

_PROMPT = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"


def location(name: str) -> str:
    """Returns the path of a file of this directory."""
    runfiles = Runfiles.Create()
    assert runfiles is not None
    path = runfiles.Rlocation(f"rules_delegate/examples/smollm/{name}")
    assert path is not None and Path(path).exists(), name
    return path


def test_it_knows_the_capital_of_france() -> None:
    runner = ExecutorchTextRunner(
        location("smollm_xnnpack.pte"), None, location("smollm.tokenizer/tokenizer.json")
    )
    answer = runner.generate(_PROMPT, 12, 0)
    assert answer == "The capital of France is Paris.<|im_end|>"
