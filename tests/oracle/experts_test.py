# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts of transformers as they are configured, in the stock runtime, against eager mode."""

from __future__ import annotations

import io
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from transformers import AutoConfig, AutoModelForCausalLM

from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.lowering import lower
from delegatec.program import write_program
from tests.oracle.oracle import OracleProgram

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_SIZES: Final[dict[str, Any]] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
# kind, lengths of the calls, backend: with one token, there are fewer rows than experts
_CASES: Final = [
    ("mixtral", (6, 2, 16), "xnnpack"),
    ("qwen3_moe", (1,), "portable"),
    ("qwen3_moe", (7, 2, 16), "portable"),
    # matrices that are not transposed, and biases
    ("gpt_oss", (5,), "xnnpack"),
    # no gates
    ("nemotron_h", (3,), "xnnpack"),
]


class _Logits(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        config = AutoConfig.for_model(kind, **_SIZES)
        make: Any = AutoModelForCausalLM.from_config
        self.model = make(config)
        assert config._experts_implementation == "grouped_mm"

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=ids, use_cache=False).logits
        return logits


@pytest.mark.parametrize(("kind", "lengths", "backend"), _CASES)
def test_it_agrees_with_eager_mode(kind: str, lengths: tuple[int, ...], backend: str) -> None:
    module = _Logits(kind).eval()
    generator = torch.Generator().manual_seed(1)
    calls = [torch.randint(0, 64, (1, length), generator=generator) for length in lengths]
    shapes = ({1: Dim("length", min=2, max=16)},) if len(lengths) > 1 else None
    (exported,) = export(Model(module, (calls[0],), dynamic_shapes=shapes)).values()
    called = {node.target for node in exported.graph.nodes if node.op == "call_function"}
    assert not any("transformers" in str(target) for target in called)
    file = io.BytesIO()
    write_program(lower({"forward": exported}, backend).emitted, file)
    runtime = OracleProgram(file.getvalue())
    for ids in calls:
        with torch.no_grad():
            wanted = module(ids)
        torch.testing.assert_close(runtime.run([ids])[0], wanted, atol=5e-6, rtol=2e-5)
