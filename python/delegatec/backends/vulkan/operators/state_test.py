# SPDX-License-Identifier: Apache-2.0
"""Buffers that a delegate keeps between runs, and those that it does not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from delegatec.backends.common.testing import Compiled, compile_program
from delegatec.backends.vulkan.backend import VULKAN
from delegatec.backends.vulkan.testing.grid import floats, over_settings
from delegatec.edge import to_edge
from delegatec.edge.testing import export

ONES = torch.ones(3, 8)
ZERO = torch.zeros((), dtype=torch.int64)
RUNS = [(floats(3, 8, seed=seed),) for seed in range(4)]


class Stateful(torch.nn.Module):
    """Calls a function with itself as the argument; its buffers are `a`, `b`."""

    def __init__(self, function: Callable[..., Any], *buffers: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, buffer in zip("ab", buffers, strict=False):
            self.register_buffer(name, buffer.clone())

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self, *inputs)


def accumulate(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.a.add_(x)
    result: torch.Tensor = m.a * 2
    return result


def count(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.a.copy_(x + m.a)
    m.b.add_(1)
    result: torch.Tensor = m.a * m.b.float()
    return result


def old_value(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    old = m.a.clone()
    m.a.add_(x)
    return old, x * 2


def delay(m: Any, x: torch.Tensor) -> torch.Tensor:
    old = m.a * 1
    m.a.copy_(m.b)
    m.b.copy_(old + x)
    result: torch.Tensor = old + 1
    return result


def attend(m: Any, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    row = x.view(1, 2, 1, 8)
    m.a.index_copy_(2, position, row)
    m.b.index_copy_(2, position, row * 2)
    mask = torch.arange(12) <= position
    result: torch.Tensor = functional.scaled_dot_product_attention(row, m.a, m.b, mask[None, None, None])
    return result


CACHE = torch.zeros(1, 2, 12, 8)
CASES: dict[str, Any] = {
    "accumulator": (Stateful(accumulate, ONES), RUNS, ""),
    "counter": (Stateful(count, ONES, ZERO), RUNS, ""),
    "cache": (
        Stateful(attend, CACHE, CACHE),
        [(floats(1, 16, seed=seed), torch.tensor([seed])) for seed in range(5)],
        "",
    ),
}


def compiled(module: torch.nn.Module, inputs: tuple[Any, ...], owns: bool = True, **options: str) -> Compiled:
    """Lowers a module that is the only method of its model."""
    exported = export(copy.deepcopy(module), *inputs)
    program = to_edge(exported, preserve=VULKAN.preserved_operators())
    program.owns_state = owns
    return compile_program("vulkan", program, **options)


def returned(found: Compiled) -> int:
    """Returns the count of values that the program returns or writes."""
    return len(found.program.output_specs)


@over_settings(CASES)
def test_state_stays_on_the_device(case: Any, options: dict[str, str]) -> None:
    module, runs, _ = case
    eager, found = copy.deepcopy(module), compiled(module, runs[0], True, **options)
    (delegate,) = found.delegates
    assert len(delegate.original.inputs) == len(runs[0]) and not found.program.constants
    tolerance = 2e-2 if options.get("precision") == "fp16" else 1e-5
    for inputs in runs:
        torch.testing.assert_close(found(*inputs)[0], eager(*inputs), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("function", [old_value, delay])
def test_old_values_are_read_before_stores(function: Callable[..., Any]) -> None:
    module = Stateful(function, ONES, 2 * ONES)
    eager, found = copy.deepcopy(module), compiled(module, RUNS[0])
    for inputs in RUNS:
        expected = eager(*inputs)
        wanted = expected if isinstance(expected, tuple) else (expected,)
        results = found(*inputs)
        # State that the program passes, because an old value of it is returned.
        for spec, value in zip(found.program.output_specs, results, strict=True):
            if spec.target is not None:
                torch.testing.assert_close(value, eager.get_buffer(spec.target))
                found.program.constants[f"b_{spec.target}"] = value
        torch.testing.assert_close(tuple(results[-len(wanted) :]), tuple(wanted))


def test_state_of_several_methods_is_passed() -> None:
    found = compiled(CASES["accumulator"][0], RUNS[0], owns=False)
    (delegate,) = found.delegates
    assert (len(delegate.original.inputs), returned(found)) == (2, 2)


def test_state_that_other_kernels_use_is_passed() -> None:
    def function(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        m.a.add_(x)
        return m.a * 2, torch.special.bessel_j0(m.a)

    found = compiled(Stateful(function, ONES), RUNS[0])
    assert found.left and not any(spec.target == "a" for spec in found.program.input_specs)

    def outside(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        old = torch.special.bessel_j0(m.a)
        m.a.add_(x)
        return m.a * 2, old

    found = compiled(Stateful(outside, ONES), RUNS[0])
    assert any(spec.target == "a" for spec in found.program.input_specs)


@pytest.mark.parametrize("initial", [torch.tensor(2**40), torch.ones(2, 1, 1, 1, 8), torch.tensor(True)])
def test_buffers_that_cannot_be_packed_are_passed(initial: torch.Tensor) -> None:
    assert not VULKAN.keeps(initial) and VULKAN.keeps(ONES)
