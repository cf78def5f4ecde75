# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim, export

from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.report.needs import RuntimeNeeds, links_text, needs_of, union_of

Needs = Callable[..., RuntimeNeeds]


@pytest.fixture
def needs(tmp_path: Path) -> Needs:
    """Returns what the program of a module needs."""

    def result(
        module: torch.nn.Module, *inputs: torch.Tensor, backend: str = "portable", dynamic: Any = None
    ) -> RuntimeNeeds:
        exported = export(module.eval(), inputs, dynamic_shapes=dynamic)
        with open(tmp_path / "program.pte", "wb") as file:
            write_program(lower({"forward": exported}, backend).emitted, file)
        return needs_of(read_program(tmp_path / "program.pte"))

    return result


class Parts(torch.nn.Module):
    """Two concatenations of lists, one of integers, and an index with gaps."""

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return torch.cat([x, x]), torch.cat([i, i]), x[:, i]


def test_keys_have_dtypes_and_dim_orders(needs: Needs) -> None:
    found = needs(Parts(), torch.ones(2, 3), torch.tensor([1]))
    assert found.backends == ()
    # The code of float32 is 6, and that of int64 is 4; a list counts as its first tensor, without its gaps.
    assert found.operators == {
        "aten::cat.out": ("v1/4;0|4;0|4;0", "v1/6;0,1|6;0,1|6;0,1"),
        "aten::index.Tensor_out": ("v1/6;0,1|4;0|6;0,1|6;0,1",),
    }


def test_a_channels_last_image_has_another_key(needs: Needs) -> None:
    image = torch.ones(1, 3, 4, 4).to(memory_format=torch.channels_last)
    assert needs(torch.nn.ReLU(), image).operators["dim_order_ops::_to_dim_order_copy.out"] == (
        "v1/6;0,1,2,3|6;0,2,3,1|6;0,2,3,1",
        "v1/6;0,2,3,1|6;0,1,2,3|6;0,1,2,3",
    )


class Flat(torch.nn.Module):
    """A product, one delegate, whose size follows the batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).reshape(x.shape[0] * 3)


def test_primitives_need_no_library(needs: Needs) -> None:
    found = needs(Flat(), torch.ones(4, 3), dynamic={"x": {0: Dim("batch", min=1, max=8)}})
    primitives = set(found.operators) - set(found.kernels)
    assert "aten::sym_size.int" in primitives and "aten::mul.Scalar_out" in found.kernels
    only = RuntimeNeeds(("MPSBackend",), {name: found.operators[name] for name in sorted(primitives)})
    assert only.kernels == ()
    assert links_text(only) == (
        "MPSBackend, no kernels: nothing is left outside of delegates but primitives of the runtime"
    )


def test_a_program_with_nothing_outside_of_delegates_says_so(needs: Needs) -> None:
    found = needs(torch.nn.Linear(4, 2), torch.ones(1, 4), backend="mps")
    assert found == RuntimeNeeds(("MPSBackend",))
    assert links_text(found) == "MPSBackend, no kernels: nothing is left outside of delegates"


def test_union() -> None:
    first = RuntimeNeeds(("MPSBackend",), {"aten::relu.out": ("v1/6;0|6;0|6;0",)})
    second = RuntimeNeeds(
        ("VulkanBackend",), {"aten::add.out": ("v1/4;0",), "aten::relu.out": ("v1/5;0|5;0|5;0",)}
    )
    both = union_of([second, first])
    assert both == RuntimeNeeds(
        ("MPSBackend", "VulkanBackend"),
        {"aten::add.out": ("v1/4;0",), "aten::relu.out": ("v1/5;0|5;0|5;0", "v1/6;0|6;0|6;0")},
    )
    assert list(both.operators) == sorted(both.operators)
    assert links_text(both) == "MPSBackend, VulkanBackend, kernels of 2 operators"
    assert links_text(first) == "MPSBackend, kernels of 1 operator"
    assert links_text(RuntimeNeeds()) == "no kernels"
    assert links_text(RuntimeNeeds((), {"aten::linear.out": (), "aten::relu.out": ()})) == (
        "kernels of 2 operators (aten::linear.out: in the optimized library only)"
    )
