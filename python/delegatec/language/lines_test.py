# SPDX-License-Identifier: Apache-2.0
"""Lines of a network, which layers with stored weights belong to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from delegatec import export, language_model
from delegatec.edge.source import location_of
from delegatec.language.testing import write_family

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("weights", ["float32", "int4"])
def test_layers_have_the_lines_that_call_them(weights: str, tmp_path: Path) -> None:
    write_family("Llama", tmp_path)
    program = export(language_model(str(tmp_path), context=24, prefill=8, weights=weights))["forward"]
    layers = program.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default)
    assert layers
    for layer in layers:
        location = location_of(layer.meta.get("stack_trace"))
        assert location is not None and "modeling_llama.py" in f"{location.file} {location.via}", layer
