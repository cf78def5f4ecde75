# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import torch
from torch.export import Dim, export

from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.report.exported import format_model, inspect_model, value_text
from delegatec.report.inspection import inspect_program
from delegatec.report.text import format_program


class Model(torch.nn.Module):
    """A layer with state."""

    last: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.register_buffer("last", torch.ones(1, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        self.last.copy_(y)
        return torch.relu(y)


def test_program_as_text(tmp_path: Path) -> None:
    path = tmp_path / "program.pte"
    with open(path, "wb") as file:
        write_program(lower({"forward": export(Model().eval(), (torch.ones(1, 4),))}).emitted, file)
    contents = inspect_program(path)
    (method,) = contents.methods
    assert [(value.dtype, value.shape) for value in method.inputs] == [("float32", (1, 4))]
    assert [value.name for value in method.state] == ["last"]
    assert ("aten::relu.out", 1) in [(kernel.name, kernel.count) for kernel in method.kernels]
    assert {part.kind for part in contents.parts} == {"program", "constants", "mutable data"}
    text = format_program(contents)
    allocators = (
        "  method allocator: 752 B on 64 bits, 452 B on 32\n  temporary allocator: 200 B on 64 bits, 140"
    )
    for line in ("  input 0   float32[1, 4]", "  output 0  float32[1, 2]", "    aten::relu.out", allocators):
        assert line in text
    assert f"({contents.bytes} B)" in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_values_that_are_channels_last(tmp_path: Path) -> None:
    path = tmp_path / "program.pte"
    image = torch.ones(1, 3, 4, 4).to(memory_format=torch.channels_last)
    with open(path, "wb") as file:
        write_program(lower({"forward": export(torch.nn.ReLU(), (image,))}).emitted, file)
    contents = inspect_program(path)
    (method,) = contents.methods
    assert [value.layout for value in (*method.inputs, *method.outputs)] == ["channels_last", "channels_last"]
    assert "  input 0   float32[1, 3, 4, 4] channels_last\n" in format_program(contents)
    assert "  output 0  float32[1, 3, 4, 4] channels_last\n" in format_program(contents)


def test_delegates_as_text(tmp_path: Path) -> None:
    path = tmp_path / "program.pte"
    with open(path, "wb") as file:
        write_program(lower({"forward": export(torch.nn.ReLU(), (torch.ones(2),))}, "mps").emitted, file)
    contents = inspect_program(path)
    (delegate,) = contents.methods[0].delegates
    assert delegate.backend == "MPSBackend" and delegate.bytes > 0
    text = format_program(contents)
    assert "MPSBackend" in text and delegate.sha256[:16] in text and "use_fp16=0x00" in text
    assert "B besides MPSBackend on 64 bits" in text


def test_exported_model_as_text() -> None:
    batch = Dim("batch", min=2, max=8)
    exported = export(Model().eval(), (torch.ones(1, 4),))
    dynamic = export(torch.nn.ReLU(), (torch.ones(3, 4),), dynamic_shapes=({0: batch},))
    first, second = inspect_model({"forward": exported, "activate": dynamic})
    assert first.inputs == {"x": "float32[1, 4]"} and first.parameters == 3
    assert first.parameter_bytes == 4 * (8 + 2 + 2)
    (symbol,) = second.symbols
    assert second.symbols[symbol] == "2 to 8"
    (kind,) = second.inputs.values()
    assert kind == f"float32[{symbol}, 4]"
    text = format_model([first, second], {"get_ids": value_text((1, [2.5], torch.ones(2)))})
    assert text.endswith("\nmethod get_ids: returns (1, [2.5], float32[2])\n")
    assert "method activate" in text and "aten.relu.default" in text
