# SPDX-License-Identifier: Apache-2.0
"""Language models whose cache the runtime owns, in the reference executor of MLX."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path

import pytest
import torch

from delegatec import export, language_model, lower
from delegatec.backends import builtin_backends
from delegatec.backends.mlx.testing import operations
from delegatec.language.testing import write_family
from delegatec.program.reader import read_program
from delegatec.verify.interpreter import Interpreter


@pytest.mark.parametrize(("family", "owned"), [("Llama", 2), ("Gemma 3", 1)])
def test_prompts_in_chunks_and_single_tokens(family: str, owned: int, tmp_path: Path) -> None:
    """Layers with windows keep their buffers."""
    write_family(family, tmp_path)
    model = language_model(str(tmp_path), context=24, prefill=8)
    lowered = lower(export(model), "mlx", {"kv_cache": "runtime"})
    (delegate,) = lowered.reports["forward"].delegates
    names = Counter(operations(delegate.module.blob_bytes()))
    assert (names["UpdateAndAttend"], names["Sdpa"]) == (owned, 2 - owned)
    lowered.save(tmp_path / "model.pte")
    program = read_program(tmp_path / "model.pte")
    executor = Interpreter(program.method("forward"), builtin_backends(), named_data=program.named_bytes())
    eager = copy.deepcopy(model.module)
    for start, count in ((0, 8), (8, 3), (11, 1), (12, 1), (0, 2), (2, 1), (3, 8)):
        inputs = [torch.arange(start, start + count)[None] * 7 % 99, torch.tensor([start])]
        with torch.no_grad():
            wanted = eager(*inputs)
        torch.testing.assert_close(executor.run(inputs)[0], wanted, rtol=1e-4, atol=1e-4)
