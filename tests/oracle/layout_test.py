# SPDX-License-Identifier: Apache-2.0
"""Layout options and named data in the stock runtime, by a delegate of the peer that it can run."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from delegatec.delegation import NamedData
from delegatec.edge.testing import edge
from delegatec.program import EmittedProgram, MemoryPlan, ProgramOptions, emit, write_program
from delegatec.program.emitted import Delegate, DelegateCall, EmittedMethod, TensorValue
from delegatec.program.external import ExternalWeights
from delegatec.program.named_data import merge_named_data
from delegatec.program.reader import parse_program, read_program
from tests.oracle.oracle import OracleProgram

FLOAT = 6
PEER = read_program(Path(__file__).with_name("testdata") / "xnnpack.pte")
BLOB = PEER.method("forward").delegates[0].blob
NAMED = PEER.named_bytes()
X = torch.rand(2, 8)


def _eager(x: torch.Tensor) -> torch.Tensor:
    """The program of testdata/xnnpack.py."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    result: torch.Tensor = layers.eval()(x)
    return result


def _method(name: str, named: Mapping[str, NamedData]) -> EmittedMethod:
    return EmittedMethod(
        name=name,
        values=[TensorValue(FLOAT, (2, 8), offset=0), TensorValue(FLOAT, (2, 4), offset=64)],
        inputs=[0],
        outputs=[1],
        operators=[],
        instructions=[DelegateCall(0, (0, 1))],
        debug_handles=[()],
        delegates=[Delegate("XnnpackBackend", (bytes(BLOB),), (), "d", {}, dict(named))],
        memory_plan=MemoryPlan(arena_size=96),
    )


def _program(options: ProgramOptions, alignment: int = 16) -> bytes:
    named = {key: NamedData(data, alignment) for key, data in NAMED.items()}
    methods = [_method("forward", named), _method("again", named)]
    named_data = merge_named_data(methods, ExternalWeights({}))
    program = EmittedProgram(methods, options=options, named_data=named_data)
    file = io.BytesIO()
    write_program(program, file)
    return file.getvalue()


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("alignment", [16, 256, 4096])
@pytest.mark.parametrize("segment_alignment", [1, 128, 16384])
def test_the_runtime_loads_every_layout(segment_alignment: int, alignment: int, inline: bool) -> None:
    options = ProgramOptions(
        segment_alignment=segment_alignment, delegate_alignment=alignment, inline_delegates=inline
    )
    pte = _program(options, alignment)
    runtime = OracleProgram(pte)
    for method in ("forward", "again"):
        torch.testing.assert_close(runtime.run([X], method)[0], _eager(X), atol=1e-6, rtol=1e-5)
    program = parse_program(pte)
    # a blob that two methods have, and each of its weights, is in the file once
    assert pte.count(bytes(BLOB)) == 1
    assert len(program.segments) == len(NAMED) + (not inline)
    assert {key: bytes(data) for key, data in program.named_bytes().items()} == {
        key: bytes(data) for key, data in NAMED.items()
    }
    (delegate,) = program.method("again").delegates
    assert bytes(delegate.blob) == BLOB and (delegate.segment is None) == inline
    assert pte.index(bytes(BLOB)) % alignment == 0
    for segment in program.segments:
        assert segment.offset % max(segment_alignment, alignment) == 0


def test_the_runtime_reads_the_named_data() -> None:
    method = _method("forward", {key: NamedData(bytes(len(data))) for key, data in NAMED.items()})
    file = io.BytesIO()
    write_program(EmittedProgram([method], named_data=merge_named_data([method], ExternalWeights({}))), file)
    assert torch.equal(OracleProgram(file.getvalue()).run([X])[0], torch.zeros(2, 4))


@pytest.mark.parametrize("alignment", [16, 64, 4096])
def test_the_runtime_reads_aligned_constants(alignment: int) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 3)
            self.register_buffer("count", torch.tensor(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.get_buffer("count").add_(1)
            result: torch.Tensor = self.linear(x) * self.get_buffer("count")
            return result

    torch.manual_seed(0)
    net = Net().eval()
    file = io.BytesIO()
    options = ProgramOptions(constant_alignment=alignment)
    write_program(emit({"forward": edge(net, X)}, options=options), file)
    runtime = OracleProgram(file.getvalue())
    for _ in range(2):
        torch.testing.assert_close(runtime.run([X])[0], net(X), atol=1e-6, rtol=1e-5)
    for tensor in parse_program(file.getvalue()).methods[0].values:
        data = getattr(tensor, "data", None)
        if data is not None and len(data) > 8:
            assert file.getvalue().index(bytes(data)) % alignment == 0
