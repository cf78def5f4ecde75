# SPDX-License-Identifier: Apache-2.0
"""The backend: settings, float16 at the border, the debug map, the graph as text."""

from __future__ import annotations

import pytest
import torch
from delegatec_schemas import vulkan_graph as schema
from torch import nn

from delegatec.backends.common.settings import Precision
from delegatec.backends.common.testing import Call
from delegatec.backends.vulkan.backend import VULKAN
from delegatec.backends.vulkan.compile_spec import CODEC, Settings, Storage
from delegatec.backends.vulkan.testing import calls, compile_module, graph_of
from delegatec.delegation import CompileSpec
from delegatec.diagnostics import DelegatecError

X = torch.randn(2, 8)


def test_options_become_settings() -> None:
    assert VULKAN.compile_specs({}) == []
    specs = VULKAN.compile_specs({"precision": "fp16", "storage": "buffer"})
    assert CODEC.decode(specs) == Settings(Precision.FP16, Storage.BUFFER)


def test_all_wrong_settings_are_named() -> None:
    specs = [CompileSpec("precision", b"fp8"), CompileSpec("storage_type_override", b"\0")]
    with pytest.raises(DelegatecError) as error:
        CODEC.decode(specs)
    assert [(each.code, each.expected) for each in error.value.diagnostics] == [
        ("DC402", "b'fp32' or b'fp16'"),
        ("DC402", "precision, storage, textures, fp16_overflow, device"),
    ]


def test_inputs_and_outputs_are_converted_while_they_are_copied() -> None:
    compiled = compile_module(Call(lambda x: (x * 2, (x + 1).half())), (X,), precision="fp16")
    graph = graph_of(compiled)
    assert calls(compiled) == ["mul.Tensor", "add.Tensor"]
    kinds = [
        (graph.values[id].content.dataType, graph.values[id].content.stagingDataType)
        for id in (*graph.inputIds, *graph.outputIds)
    ]
    half, full = schema.DataType.FLOAT16, schema.DataType.FLOAT32
    assert kinds == [(half, full), (half, full), (half, half)]


def test_every_weight_beyond_float16_is_named_at_once() -> None:
    model = nn.Linear(8, 2)
    model.weight.data[0, 0] = 1e6
    model.bias.data[1] = -1e5
    with pytest.raises(DelegatecError) as error:
        compile_module(model, (X,), precision="fp16")
    assert [each.code for each in error.value.diagnostics] == ["DC406", "DC406"]
    compile_module(model, (X,), precision="fp16", fp16_overflow="saturate")


def test_scalars_are_shared_by_type_and_value() -> None:
    compiled = compile_module(Call(lambda x: x.clamp(0, 2).clamp(2, 3) + x.sum(1, True) * 2), (X,))
    contents = [(value.contentType, vars(value.content).get("value")) for value in graph_of(compiled).values]
    scalars = [each for each in contents if each[1] is not None]
    assert len(scalars) == len({(kind, type(value), value) for kind, value in scalars})


def test_every_call_has_its_handles() -> None:
    compiled = compile_module(nn.Sequential(nn.Linear(8, 4), nn.GELU()), (X,))
    (delegate,) = compiled.delegates
    ids = [call.nodeId for call in graph_of(compiled).chain]
    assert ids == list(range(len(ids)))
    assert set(delegate.debug_handle_map) == set(ids)
