# SPDX-License-Identifier: Apache-2.0
"""The demo backend: supported nodes, rejections, and the contents and results of its blobs."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from demo_backend.backend import BACKEND
from demo_backend.blob import read_blob
from torch.export import export

from delegatec.backends import builtin_backends
from delegatec.delegation import PartitionView
from delegatec.diagnostics import DelegatecError
from delegatec.edge import EdgeProgram, to_edge
from delegatec.lowering import Program, lower
from delegatec.report.debug_map import debug_map_json

PICTURE = torch.linspace(-1, 1, 2 * 4 * 9 * 9).reshape(2, 4, 9, 9)


class Layers(torch.nn.Module):
    """Layers one after the other; strings name functions of torch."""

    def __init__(self, *layers: torch.nn.Module | str) -> None:
        super().__init__()
        self.modules_of = torch.nn.ModuleList(layer for layer in layers if not isinstance(layer, str))
        self.order = [layer if isinstance(layer, str) else "" for layer in layers]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        modules = iter(self.modules_of)
        for name in self.order:
            x = getattr(torch, name)(x) if name else next(modules)(x)
        return x


def conv(*arguments: Any, **options: Any) -> torch.nn.Module:
    """A convolution of 4 channels to 4, with weights that are always the same."""
    torch.manual_seed(len(arguments) + len(options))
    return torch.nn.Conv2d(4, 4, *arguments, **options)


def edge(module: torch.nn.Module, *inputs: torch.Tensor) -> EdgeProgram:
    return to_edge(export(module.eval(), inputs or (PICTURE,)))


def lowered(module: torch.nn.Module, options: dict[str, str] | None = None) -> Program:
    registry = builtin_backends()
    registry.register(BACKEND)
    return lower({"forward": export(module.eval(), (PICTURE,))}, BACKEND.name, options, registry=registry)


def blob_of(result: Program) -> memoryview:
    ((delegate,),) = (method.delegates for method in result.emitted.methods)
    return memoryview(b"".join(delegate.blob))


def rejections(module: torch.nn.Module, *inputs: torch.Tensor, tan: str = "split") -> dict[str, str]:
    """Returns operator -> the rule by which its last call is rejected."""
    partitioner = BACKEND.partitioner(BACKEND.compile_specs({"tan": tan}))
    found = partitioner.partition(edge(module, *inputs)).rejections
    return {str(r.node.target): r.rule for r in found}


def test_the_known_mapping() -> None:
    """conv, relu, conv, relu, tan: instructions and map of the known demo of this kind."""
    result = lowered(Layers(conv(3), "relu", conv(1), "relu", "tan"))
    blob = read_blob(blob_of(result))
    assert [(step.operation, step.identifier) for step in blob.instructions] == [
        ("conv_relu_op", 0),
        ("conv_relu_op", 1),
        ("sin_decomp_from_tan", 2),
        ("cos_decomp_from_tan", 3),
        ("div_decomp_from_tan", 4),
    ]
    forward = json.loads(debug_map_json(result.sources, result.emitted))["methods"]["forward"]
    ((index,), mapping) = (forward["delegates"][0][key] for key in ("instructions", "map"))
    assert mapping == {"0": [1, 2], "1": [3, 4], "2": [5], "3": [5], "4": [5]}
    assert forward["instructions"][index]["handles"] == [1, 2, 3, 4, 5]
    operators = [forward["handles"][str(handle)]["operator"] for handle in range(1, 6)]
    assert operators == ["aten.conv2d.default", "aten.relu.default"] * 2 + ["aten.tan.default"]


@pytest.mark.parametrize(
    "module",
    [
        Layers(conv(3), "relu"),
        Layers(conv(3, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2, bias=False), "relu"),
        Layers(conv((1, 3), padding="same"), "relu", "tan", conv(2, stride=2), "relu"),
        Layers("tan"),
    ],
)
def test_the_blob_alone_agrees_with_eager_mode(module: torch.nn.Module) -> None:
    expected = module(PICTURE)
    result = lowered(module)
    run = BACKEND.reference(blob_of(result), [])
    (got,) = run([PICTURE])
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)
    with pytest.raises(ValueError, match="2 inputs"):
        run([PICTURE, PICTURE])


def test_weights_are_not_copied() -> None:
    module = Layers(conv(3), "relu")
    program = edge(module)
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    blob = BACKEND.preprocess(PartitionView(program, nodes), []).blob
    (weight, bias) = (torch.frombuffer(part, dtype=torch.float32) for part in blob[1:])
    (layer,) = module.modules_of
    assert weight.data_ptr() == layer.weight.data_ptr() and bias.data_ptr() == layer.bias.data_ptr()


class Twice(torch.nn.Module):
    """The result of the convolution has a second reader."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = conv(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return torch.relu(y) + y


class WeightsAreInput(torch.nn.Module):
    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.conv2d(x, weight))


@pytest.mark.parametrize(
    ("module", "inputs", "expected"),
    [
        (Layers(conv(3)), (), {"aten.convolution.default": "conv_without_relu"}),
        (Layers("relu"), (), {"aten.relu.default": "relu_without_conv"}),
        (Layers("tan", "relu"), (), {"aten.relu.default": "relu_without_conv"}),
        (Layers("tan", "exp"), (), {"aten.exp.default": "operator"}),
        (
            Twice(),
            (),
            {
                "aten.convolution.default": "conv_without_relu",
                "aten.relu.default": "relu_without_conv",
                "aten.add.Tensor": "operator",
            },
        ),
        (
            WeightsAreInput(),
            (PICTURE, torch.rand(4, 4, 3, 3)),
            {"aten.convolution.default": "weights", "aten.relu.default": "relu_without_conv"},
        ),
        (
            Layers(torch.nn.ConvTranspose2d(4, 4, 3), "relu"),
            (),
            {"aten.convolution.default": "transposed", "aten.relu.default": "relu_without_conv"},
        ),
        (
            Layers(torch.nn.Conv1d(4, 4, 3), "relu"),
            (PICTURE[0, :, :1].reshape(1, 4, 9),),
            {"aten.convolution.default": "rank", "aten.relu.default": "relu_without_conv"},
        ),
        (Layers("tan"), (PICTURE.double(),), {"aten.tan.default": "dtype"}),
    ],
)
def test_rejected_nodes_have_a_reason(
    module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], expected: dict[str, str]
) -> None:
    assert rejections(module, *inputs) == expected


def test_every_node_is_delegated_or_has_a_reason() -> None:
    program = edge(Layers(conv(3), "relu", "exp", conv(1), "tan", "relu"))
    partitioning = BACKEND.partitioner(BACKEND.compile_specs({})).partition(program)
    taken = [node for group in partitioning.groups for node in group]
    left = [rejection.node for rejection in partitioning.rejections]
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    assert sorted(taken + left) == sorted(nodes) and taken and left


def test_an_option() -> None:
    assert rejections(Layers("tan"), tan="leave") == {"aten.tan.default": "option"}
    with pytest.raises(DelegatecError) as caught:
        BACKEND.compile_specs({"tan": "keep"})
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["DC402"]


def test_the_executor_knows_its_number_of_inputs() -> None:
    assert BACKEND.reference(blob_of(lowered(Layers("tan"))), []).num_inputs == 1


def test_the_description_has_an_instruction_a_line() -> None:
    assert BACKEND.describe(blob_of(lowered(Layers("tan")))) == (
        "1 input(s)\n"
        "v1 = sin_decomp_from_tan v0  [0]\n"
        "v2 = cos_decomp_from_tan v0  [1]\n"
        "v3 = div_decomp_from_tan v1 v2  [2]\n"
        "returns v3\n"
    )


def test_every_truncation_and_changed_letter_is_rejected_or_a_valid_blob() -> None:
    """A damaged blob is DC407, and never a traceback."""
    good = bytes(blob_of(lowered(Layers(conv(1), "relu", "tan"))))
    for size in range(len(good)):
        with pytest.raises(DelegatecError) as caught:
            read_blob(memoryview(good[:size]))
        assert caught.value.diagnostics[0].code == "DC407"
    refused = 0
    text = 8 + int.from_bytes(good[4:8], "little")
    for position in range(text):
        for letter in b"#;,0 9x":
            damaged = bytearray(good)
            damaged[position] = letter
            try:
                read_blob(memoryview(bytes(damaged)))
            except DelegatecError as error:
                assert error.diagnostics[0].code == "DC407"
                refused += 1
    assert refused > 5 * text
