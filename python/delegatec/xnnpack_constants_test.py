# SPDX-License-Identifier: Apache-2.0
"""Where constants of XNNPACK delegates are stored, and the keys of filters."""

from __future__ import annotations

import dataclasses
import io

import pytest
import torch
from torch import nn

from delegatec.backends.xnnpack.backend import XNNPACK
from delegatec.backends.xnnpack.blob import read_blob
from delegatec.backends.xnnpack.checking.values import NAMED
from delegatec.backends.xnnpack.operands import OPERATION_NAMES
from delegatec.backends.xnnpack.values import tensor_of
from delegatec.delegation import BackendRegistry
from delegatec.delegation.delegates.lowered_module import LoweredModule
from delegatec.diagnostics import DelegatecError
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import parse_program
from delegatec.verify import Interpreter


def delegate_of(module: nn.Module, *inputs: torch.Tensor, external: bool = False) -> LoweredModule:
    """Returns the one delegate of a module."""
    programs = {"forward": torch.export.export(module.eval(), inputs)}
    (found,) = lower(programs, "xnnpack", external_weights=external).reports["forward"].delegates
    return found.module


class Both(nn.Module):
    """Reads the bias of a layer again, and another constant."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * self.scale + self.layer.bias


@pytest.mark.parametrize("external", [False, True])
def test_constants_that_are_read_at_each_run_are_in_the_blob(external: bool) -> None:
    module = Both()
    delegate = delegate_of(module, torch.randn(3, 8), external=external)
    assert delegate.inline
    blob = read_blob(memoryview(delegate.blob_bytes()))
    tensors = {tensor_of(value).id: tensor_of(value) for value in blob.graph.values}
    inner = [blob.graph.constants[tensors[id].constantId] for id in sorted(blob.kept_ids)]
    found = {bytes(blob.constants[each.offset : each.offset + each.size]) for each in inner}
    wanted = {module.scale.detach().numpy().tobytes(), module.layer.bias.detach().numpy().tobytes()}
    assert found == wanted and all(each.offset % 16 == 0 for each in inner)
    assert (
        "constants of the blob that are read at each run: 64 B"
        in XNNPACK.graph(memoryview(delegate.blob_bytes())).notes
    )
    # filter and bias of the layer, the latter a second time
    assert [each.offset for each in blob.graph.constants].count(NAMED) == 2
    assert len(delegate.named_data) == 2
    if external:
        assert "layer.weight" in delegate.named_data
        assert not {"layer.bias", "scale"} & {*delegate.named_data}  # the key of the bias tells layers apart


def test_a_delegate_of_layers_has_its_own_segment() -> None:
    delegate = delegate_of(nn.Linear(8, 8), torch.randn(3, 8))
    assert not delegate.inline and len(delegate.named_data) == 2


class Shared(nn.Module):
    """Two layers of one filter, whose strides may differ."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 1, 1))
        self.stride = stride

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        one = nn.functional.conv2d(x, self.weight)
        return one, nn.functional.conv2d(one, self.weight, stride=self.stride)


@pytest.mark.parametrize("stride", [1, 2])
def test_layers_have_one_key_if_they_pack_alike(stride: int) -> None:
    delegate = delegate_of(Shared(stride), torch.randn(1, 4, 6, 6))
    blob = read_blob(memoryview(delegate.blob_bytes()))
    tensors = {tensor_of(value).id: tensor_of(value) for value in blob.graph.values}
    filters = [
        tensors[node.operation.filterId]
        for node in blob.graph.nodes
        if OPERATION_NAMES[node.operationType] == "Convolution"
    ]
    keys = {blob.graph.constants[each.constantId].key for each in filters}
    assert len(filters) == 2 and len(keys) == stride


class Transposed(nn.Module):
    """Multiplies by a matrix and by its transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight) @ self.weight


def test_layers_of_an_external_weight_have_biases_of_their_own() -> None:
    delegate = delegate_of(Transposed(), torch.randn(3, 4), external=True)
    data = dict(delegate.named_data)
    assert "weight" in data and all(item.is_separate for item in data.values())
    del data["weight"]
    assert sorted(bytes(item.data) for item in data.values()) == [bytes(16), bytes(32)]


def keys_of_biases(module: nn.Module) -> list[str]:
    """Returns the keys of a delegate with external weights, apart from names of weights."""
    delegate = delegate_of(module, torch.randn(3, 8), external=True)
    assert [key for key in delegate.named_data if key.endswith("weight")] == ["0.weight", "2.weight"]
    return [key for key in delegate.named_data if not key.endswith("weight")]


@pytest.mark.parametrize("bias", [True, False])
def test_external_weights_of_equal_names_have_other_keys(bias: bool) -> None:
    module = nn.Sequential(nn.Linear(8, 8, bias=bias), nn.ReLU(), nn.Linear(8, 8, bias=bias))
    first = keys_of_biases(module)
    assert len({*first}) == 2 and keys_of_biases(module) == first
    with torch.no_grad():
        module[2].weight[0, 0] += 1  # type: ignore[operator,union-attr]
    second = keys_of_biases(module)
    assert second[0] == first[0] and second[1] != first[1]


def test_keys_do_not_depend_on_the_batch() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    first, second = (delegate_of(module, torch.randn(rows, 8)) for rows in (1, 5))
    assert set(first.named_data) == set(second.named_data)


@pytest.mark.parametrize("inline", [True, False])
def test_a_blob_that_the_runtime_reads_at_each_run_must_be_inline(inline: bool) -> None:
    x = torch.randn(3, 8)
    emitted = lower({"forward": torch.export.export(Both().eval(), (x,))}, "xnnpack").emitted
    (method,) = emitted.methods
    method.delegates[0] = dataclasses.replace(method.delegates[0], inline=inline)
    file = io.BytesIO()
    write_program(emitted, file)
    program = parse_program(file.getvalue())
    registry = BackendRegistry([XNNPACK])
    named = program.named_bytes()
    if inline:
        Interpreter(program.method("forward"), registry, named_data=named).run([x])
        return
    with pytest.raises(DelegatecError, match="it is in a segment, which the runtime frees"):
        Interpreter(program.method("forward"), registry, named_data=named).run([x])
