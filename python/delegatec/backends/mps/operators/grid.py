# SPDX-License-Identifier: Apache-2.0
"""What the tests of operator rows share: a function lowered to a blob, and run from it, against eager."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.export.graph_signature import TensorArgument

from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.operators.table import TABLE
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.backends.mps.reference.sensitivity import depends_on
from delegatec.backends.mps.testing import Compiled, compile_module, compile_program, eager, operations
from delegatec.delegation.call_delegate import call_delegate
from delegatec.edge import to_edge
from delegatec.edge.builder import Builder

aten = torch.ops.aten

Function = Callable[..., Any]
Build = Callable[[Builder, torch.fx.Node], torch.fx.Node]
"""Appends nodes that read a float32 tensor; gives the last of them."""

PRECISIONS: Final = ("fp32", "fp16")
# Rows say it in a note where they take NaN, or the index of equal elements, for what MPSGraph makes of them.
_AT_AWKWARD_VALUES: Final = frozenset({"nan", "ties"})
_TOLERANCE: Final = {"fp32": (2e-5, 2e-6), "fp16": (4e-3, 1e-3)}


class Call(torch.nn.Module):
    """A module that is one function."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        """Calls it."""
        return self.function(*args)


def floats(*shape: int, seed: int = 0) -> torch.Tensor:
    """float32 in [-0.8, 0.8)."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 1.6 - 0.8


def ints(*shape: int, high: int = 5, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Integers in [0, high)."""
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


X: Final = floats(2, 3, 4)
Y: Final = floats(2, 3, 4, seed=1)
EDGES: Final = torch.tensor(
    [
        *(0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1.0, -1.0, 3.0, -7.0, 0.001, -0.001, 100.25, -513.5),
        *(float("inf"), float("-inf"), float("nan")),
    ]
)
"""What functions treat specially: zeros, halves, infinities, NaN."""
PAIRS: Final = (EDGES.repeat_interleave(len(EDGES)), EDGES.repeat(len(EDGES)))
"""Each of them beside each."""
IMAGE: Final = floats(2, 6, 7, 8)
BOOL: Final = torch.tensor([True, False, True])


def run_case(
    function: Function,
    args: tuple[torch.Tensor, ...],
    expected: str = "",
    precision: str = "fp32",
    *,
    rtol: float | None = None,
    atol: float | None = None,
    preserve: Collection[OpOverload] = (),
    reference: Function | None = None,
    unspecified: Collection[str] = (),
) -> Compiled:
    """Checks that a function becomes one delegate that gives what eager gives.

    With fp16, eager computes in float16 as well: what both round does not count as a difference.

    Args:
        function: of tensors, gives a tensor or several.
        args: example inputs, which it is run on.
        expected: names of the blob's operations, in order; not checked if empty. With fp16 the casts of
            inputs and outputs are among them.
        precision: "fp32" or "fp16".
        rtol: relative tolerance, that of the precision if not given.
        atol: absolute tolerance, likewise.
        preserve: composites that reach the partitioner whole.
        reference: gives the expected results in place of the function, on the same inputs.
        unspecified: behaviours of MPSGraph that the result may depend on, by their names in `Unspecified`.

    Returns:
        What was compiled, for further checks.
    """
    module = Call(function)
    compiled = compile_module(module, args, precision, preserve)
    left = [(r.operator, r.rule, r.message) for r in compiled.report.rejections]
    assert (len(compiled.delegates), left) == (1, []), f"{len(compiled.delegates)} delegates, without {left}"
    if expected:
        found = operations(compiled.blobs()[0])
        assert found == expected.split(), f"the blob has {' '.join(found)}"
    undeclared = _undeclared(compiled)
    assert not undeclared, f"no row of {list(compiled.report.delegates[0].operators)} emits {undeclared}"
    wanted = list(eager(Call(reference or function), _halved(args) if precision == "fp16" else args))
    dtypes = [t.dtype for t in eager(module, args)]
    tolerance = _TOLERANCE[precision]
    for result, dtype, value in zip(compiled(*args), dtypes, wanted, strict=True):
        assert result.dtype == dtype, f"{result.dtype} is not {dtype}"
        assert result.shape == value.shape, f"{result.shape} is not {value.shape}"
        torch.testing.assert_close(
            result,
            value.to(dtype),
            rtol=tolerance[0] if rtol is None else rtol,
            atol=tolerance[1] if atol is None else atol,
            equal_nan=True,
        )
    check_specified(compiled, args, unspecified)
    return compiled


# Conversions.
_UNDECLARED: Final = frozenset({"Cast", "Ne"})


def _undeclared(compiled: Compiled) -> list[str]:
    """Operations of the blob that stand for a node, and that no row of what was delegated lists."""
    lowered = compiled.delegates[0].debug_handle_map
    emitted = {name for index, name in enumerate(operations(compiled.blobs()[0])) if index in lowered}
    rows = {str(target): row for target, row in TABLE.rows.items()}
    named = compiled.report.delegates[0].operators
    declared = {operation for name in named if name in rows for operation in rows[name].emits}
    return sorted(emitted - declared - _UNDECLARED)


def _halved(args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(t.half() if t.dtype == torch.float32 else t for t in args)


def rejected(
    function: Function, args: tuple[torch.Tensor, ...], precision: str = "fp32"
) -> list[tuple[str, str, str]]:
    """Operator, rule and message of each node that is left outside of a delegate."""
    report = compile_module(Call(function), args, precision).report
    return [(r.operator, r.rule, r.message) for r in report.rejections]


def run_node(
    build: Build, expected: str = "", precision: str = "fp32", tolerance: float | None = None
) -> None:
    """Checks nodes that the edge program's own passes would fold or rewrite before a delegate sees them.

    They get a float32 of shape [2, 3, 4]; the mean of their result is what is compared.

    Args:
        build: appends them.
        expected: operations that the blob has to have, in any order.
        precision: "fp32" or "fp16".
        tolerance: relative and absolute.
    """
    program = to_edge(torch.export.export(Call(lambda x: x + 1.0), (X,)))
    output = program.output_node()
    (work,) = output.all_input_nodes
    builder = Builder(program).at(output)
    extra = builder.call(aten._to_copy.default, build(builder, work), dtype=torch.float32)
    if extra.meta["val"].dim():
        extra = builder.call(aten.mean.default, extra)
    node = builder.call(aten.add.Tensor, work, extra)
    output.args = ((node,),)
    program.output_specs[0] = replace(program.output_specs[0], arg=TensorArgument(node.name))
    wanted = torch.fx.Interpreter(program.graph_module).run(X)
    compiled = compile_program(program, precision)
    assert (len(compiled.delegates), compiled.report.rejections) == (1, [])
    for operation in expected.split():
        assert operation in operations(compiled.blobs()[0]), f"the blob has no {operation}"
    allowed = tolerance or {"fp32": 1e-6, "fp16": 2e-2}[precision]
    torch.testing.assert_close(compiled(X)[0], wanted[0], rtol=allowed, atol=allowed, equal_nan=True)


def _awkward(tensor: torch.Tensor) -> torch.Tensor:
    """Other values in place of a float32's: halves, zeros of both signs, equal elements."""
    if tensor.dtype != torch.float32:
        return tensor
    values = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 1.0, 0.0, -0.0])
    return values[torch.randint(0, 8, tensor.shape, generator=torch.Generator().manual_seed(tensor.numel()))]


def check_specified(
    compiled: Compiled, args: tuple[torch.Tensor, ...], allowed: Collection[str] = ()
) -> None:
    """Checks that what a single delegate gives does not depend on what MPSGraph leaves unspecified.

    Args:
        compiled: from `run_case`.
        args: inputs of the program.
        allowed: behaviours that it does depend on.
    """
    (call,) = (node for node in compiled.program.graph.nodes if node.target is call_delegate)
    users = [node for node in compiled.program.placeholders() if node.name not in compiled.program.constants]
    given = dict(zip(users, args, strict=True))
    blob = read_blob(memoryview(compiled.blobs()[0]))
    inputs = [given[node] for node in call.args[1:]]
    assert depends_on(blob, inputs) == list(allowed)
    if any(tensor.dtype == torch.float32 for tensor in inputs):
        found = depends_on(blob, [_awkward(tensor) for tensor in inputs])
        assert set(found) <= {*allowed, *_AT_AWKWARD_VALUES}
    run = MpsReferenceExecutor(blob)
    run(inputs)
    assert run.mismatches() == []
