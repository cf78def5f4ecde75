# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
import torch

from delegatec.backends.arm.blob import Graph, read_blob
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.capabilities.testing import Case, blob
from delegatec.backends.arm.capabilities.testing.cases import CASES
from delegatec.backends.arm.vgf.converter import CONVERTER, to_vgf
from delegatec.backends.arm.vgf.reader import read_graph
from delegatec.backends.common.testing import (
    Call,
    Compiled,
    X,
    Y,
    check_results,
    compile_module,
    eager,
    floats,
)
from delegatec.delegation import Part
from delegatec.diagnostics import DelegatecError

_TOLERANCE: Final = (2e-5, 2e-6)
_SIMPLIFIED: Final = (
    "IDENTITY",
    "INT4[",
    "REVERSE",
    "COND_IF",
    "WHILE_LOOP",
    "perms=[0,1,2,3]",
    "ADD INT32",
    "#1,1,1,1",
    "[] #",
)
"""Cases that the converter changes, as it removes copies and sums with zero, and stores int4 as int8; and
control flow, which it does not support."""


def first_of_each_kind() -> list[Case]:
    """One small graph of each operator and types, without those that the converter simplifies."""
    kinds: dict[tuple[str, ...], Case] = {}
    for case in CASES:
        if not any(each in str(case) for each in _SIMPLIFIED):
            kinds.setdefault((case.name, *(text.split("[")[0] for text in case.operands)), case)
    return list(kinds.values())


def joined(parts: Sequence[Part]) -> bytes:
    return b"".join(bytes(part[0 : len(part)]) for part in parts)


def contents(graph: Graph) -> list[Any]:
    """Everything but names. A constant has its bytes; a shape is a tensor in SPIR-V."""

    def value(each: Value) -> Any:
        data = None if each.part is None else bytes(each.part[0 : len(each.part)])
        return str(each), data if each.is_constant else None

    def attribute(each: Any) -> Any:
        return [int(number) for number in each] if hasattr(each, "__len__") else int(each)

    return [
        [
            operation.name,
            [value(each) for each in operation.inputs],
            [str(each) for each in operation.outputs],
            {key: attribute(each) for key, each in operation.attributes.items()},
        ]
        for operation in graph.operations
    ] + [[str(each) for each in values] for values in (graph.inputs, graph.outputs)]


@pytest.mark.parametrize("case", first_of_each_kind(), ids=str)
def test_the_graph_of_a_file_is_the_graph_that_was_converted(case: Case) -> None:
    graph = joined(blob(case))
    assert contents(read_graph(memoryview(to_vgf([graph])))) == contents(read_blob(memoryview(graph)))


def lowered(module: torch.nn.Module | Callable[..., Any], args: tuple[torch.Tensor, ...]) -> Compiled:
    """Lowers a module to one delegate, and compares it with eager mode."""
    model = module if isinstance(module, torch.nn.Module) else Call(module)
    compiled = compile_module("vgf", model, args)
    assert (len(compiled.delegates), compiled.left) == (1, [])
    wanted = list(eager(model, args))
    check_results(compiled(*args), wanted, [value.dtype for value in wanted], *_TOLERANCE)
    return compiled


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x, y: (x * y + 1.5, x @ y.transpose(1, 2)), (X, Y)),
        (lambda x: x.permute(2, 0, 1).reshape(4, 6).tanh(), (X,)),
        (lambda x, y: (x > y, torch.maximum(x, y)), (X, Y)),
        (lambda x, y: x * y, (torch.tensor(2.5), torch.tensor(-3.0))),
    ],
)
def test_results_are_those_of_eager_mode(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...]
) -> None:
    lowered(function, args)


def test_bytes_are_deterministic() -> None:
    weight = floats(4, 5)
    first, second = (lowered(lambda x: (x @ weight).tanh(), (X,)).blobs() for _ in range(2))
    assert first == second


def test_constants_stay_in_the_file() -> None:
    weight = floats(64, 64)
    (data,) = lowered(lambda x: x @ weight, (floats(2, 64),)).blobs()
    view = memoryview(data)
    (constant,) = (each for each in read_graph(view).constants if each.shape == (1, 64, 64))
    assert isinstance(constant.part, memoryview)
    assert constant.part.obj is data
    assert bytes(constant.part) == weight.numpy().tobytes()


def test_inputs_and_outputs_are_in_the_order_of_the_delegate() -> None:
    data = lowered(lambda x, y, z: (z - x, y - z), (X, Y, floats(2, 3, 4, seed=2))).blobs()
    graph = read_graph(memoryview(data[0]))
    assert len(graph.inputs) == 3
    assert [operation.name for operation in graph.operations] == ["SUB", "SUB"]


def test_without_the_converter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DelegatecError, match="Arm's model converter is not installed") as caught:
        compile_module("vgf", Call(lambda x: x + 1), (X,))
    assert caught.value.diagnostics[0].code == "DC430"


def test_a_graph_that_the_converter_rejects() -> None:
    with pytest.raises(
        DelegatecError, match="Arm's model converter rejects the graph of a delegate"
    ) as caught:
        to_vgf([b"no graph"])
    assert caught.value.diagnostics[0].code == "DC431"
    assert CONVERTER.wheel.endswith("==0.9.0")


def test_damaged_files_are_rejected_or_read() -> None:
    (data,) = lowered(lambda x, y: (x * y + 1.5, x @ y.transpose(1, 2)), (X, Y)).blobs()
    generator, rejected = random.Random(0), 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(generator.choice((1, 1, 3))):
            damaged[generator.randrange(len(damaged))] = generator.choice(
                (0, 1, 0x7F, 0xFF, generator.randrange(256))
            )
        try:
            read_graph(memoryview(bytes(damaged)))
        except DelegatecError as error:
            rejected += 1
            assert error.diagnostics[0].code == "DC407"
    assert rejected > 100
    for size in range(0, len(data), 7):
        with pytest.raises(DelegatecError, match="VgfBackend"):
            read_graph(memoryview(data[:size]))


def test_control_flow_is_not_converted() -> None:
    module = Call(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)))
    compiled = compile_module("vgf", module, (X,), specification="TOSA-1.0+FP+cf")
    reasons = {operator: message for operator, _, message in compiled.left}
    assert reasons["cond"] == "COND_IF: the model converter has no control flow"
    assert len(compiled.blobs()) == 3
