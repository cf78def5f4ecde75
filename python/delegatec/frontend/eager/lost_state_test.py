# SPDX-License-Identifier: Apache-2.0
"""State that an exported program would lose is an error that names it; caches and buffers are not."""

from __future__ import annotations

import itertools
import math
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.eager.state import bits
from delegatec.frontend.export import export
from delegatec.frontend.model import Model

_calls = 0


class Helper:
    shared = 0

    def __init__(self) -> None:
        self.count = 0
        self.noise = numpy.random.default_rng(0)
        self.older_noise = numpy.random.RandomState(0)


class Stateful(torch.nn.Module):
    """Calls a function that may change `self`."""

    def __init__(self, change: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.change = change
        self.inner = torch.nn.Identity()
        self.count, self.first, self.largest = 0, True, 0
        self.history: list[Any] = []
        self.inner.settings = {"calls": 0}  # type: ignore[assignment]
        self.inner.tensor = torch.zeros(2)
        self.plain = torch.zeros(2)
        self.lazy: torch.Tensor | None = None
        self.cache = {"keys": torch.zeros(2)}
        self.recent = deque([torch.zeros(2)], maxlen=2)
        self.helper = Helper()
        self.counter = itertools.count(1)
        self.squares = (number * number for number in itertools.count(1))
        self.dice = random.Random(3)
        self.torch_dice = torch.Generator()
        self.letters = iter(["a"] * 100)
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.change(self, x)
        return result


def count(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.count += 1
    return x * self.count


def unused_count(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.count += 1
    return x


def append(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.history.append(len(self.history))
    return x + len(self.history)


def nested(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.inner.settings["calls"] += 1
    return x


def only_first(self: Any, x: torch.Tensor) -> torch.Tensor:
    first, self.first = self.first, False
    return x * 2 if first else x


def plain_tensor(self: Any, x: torch.Tensor) -> Any:
    self.plain = self.plain + x
    return self.plain * 1


def tensor_of_submodule(self: Any, x: torch.Tensor) -> Any:
    self.inner.tensor = self.inner.tensor + x
    return self.inner.tensor * 1


def item(self: Any, x: torch.Tensor) -> Any:
    self.cache["keys"] = self.cache["keys"] + x
    return self.cache["keys"] * 1


def almost_unused(self: Any, x: torch.Tensor) -> Any:
    """The results differ by less than those of other implementations may."""
    self.cache["keys"] = self.cache["keys"] + x
    return x + 1e-9 * self.cache["keys"]


def unused_for_these_inputs(self: Any, x: torch.Tensor) -> Any:
    """It is written in place, too, and that write hides the other one."""
    self.cache["keys"].masked_fill_(x.abs() < math.inf, 1.0)
    result = x * self.cache["keys"]
    self.cache["keys"] = self.cache["keys"] + x
    return result


def absorbed(self: Any, x: torch.Tensor) -> Any:
    """The sums are equal for all but large inputs."""
    result = x * self.cache["keys"].fill_(1e30)
    self.cache["keys"] = self.cache["keys"] + x
    return result


def queue(self: Any, x: torch.Tensor) -> Any:
    self.recent.append(x)
    return sum(self.recent)


def helper(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.helper.count += 1
    return x * self.helper.count


def of_class(self: Any, x: torch.Tensor) -> torch.Tensor:
    Helper.shared += 1
    return x * Helper.shared


def global_variable(self: Any, x: torch.Tensor) -> torch.Tensor:
    global _calls
    _calls += 1
    return x * _calls


def replaced_buffer(self: Any, x: torch.Tensor) -> Any:
    self._buffers["total"] = self.total + x
    return self.total * 1


def made_at_first(self: Any, x: torch.Tensor) -> torch.Tensor:
    if self.lazy is None:
        self.lazy = x * 2
    return x + self.lazy


def iterator(self: Any, x: torch.Tensor) -> Any:
    return x * next(self.counter)


def generator(self: Any, x: torch.Tensor) -> Any:
    return x * next(self.squares)


def dice(self: Any, x: torch.Tensor) -> Any:
    return x * self.dice.random()


def unused_draw(self: Any, x: torch.Tensor) -> torch.Tensor:
    """The next draw may be the same."""
    self.dice.random()
    return x


def unused_draw_of_numpy(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.helper.noise.random()
    return x


def unused_draw_of_older_numpy(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.helper.older_noise.random()
    return x


def unused_draw_of_torch(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.torch_dice.manual_seed(self.torch_dice.initial_seed() + 1)
    return x


def unused_step(self: Any, x: torch.Tensor) -> torch.Tensor:
    next(self.letters)
    return x


def cache(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.largest = max(self.largest, x.shape[0])
    self.shape = tuple(x.shape)
    return x * self.largest


def buffer(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.total += x
    self.shape = x.shape
    return x + self.total


def assigned_buffer(self: Any, x: torch.Tensor) -> Any:
    self.total = self.total + x
    return self.total * 1


def written_in_place(self: Any, x: torch.Tensor) -> Any:
    self.cache["keys"].add_(x)
    self.plain.add_(x)
    return self.cache["keys"] * self.plain


def written_by_constants(self: Any, x: torch.Tensor) -> Any:
    """The results do not depend on it for these inputs."""
    self.cache["keys"].add_(1)
    self.plain.mul_(2)
    self.plain += torch.ones(2)
    return (self.cache["keys"] * self.plain).masked_fill(x > 0, 3)


def last_result(self: Any, x: torch.Tensor) -> Any:
    """Nothing reads what it keeps."""
    self.plain, self.cache["keys"] = x * 1, x * 2
    return x + 1


def rebuilt(self: Any, x: torch.Tensor) -> Any:
    result = x + self.plain
    self.plain = torch.zeros(2)
    return result


def noise(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.shape = x.shape
    return x + torch.rand(2)


def problems(module: torch.nn.Module, x: torch.Tensor | None = None, *, strict: bool = False) -> list[str]:
    try:
        export(Model(module, (torch.ones(2) if x is None else x,), strict=strict))
    except DelegatecError as error:
        return [f"{problem.code}: {problem.message}" for problem in error.diagnostics]
    return []


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (count, "count"),
        (unused_count, "count"),
        (append, "history"),
        (nested, "inner.settings['calls']"),
        (only_first, "first"),
        (plain_tensor, "plain"),
        (tensor_of_submodule, "inner.tensor"),
        (item, "cache['keys']"),
        (almost_unused, "cache['keys']"),
        (unused_for_these_inputs, "cache['keys']"),
        (absorbed, "cache['keys']"),
        (queue, "recent"),
        (helper, "helper.count"),
        (of_class, "helper.shared"),
        (global_variable, "change._calls"),
        (replaced_buffer, "total"),
        (made_at_first, "lazy"),
        (iterator, "counter"),
        (generator, "squares"),
        (dice, "dice"),
        (unused_draw, "dice"),
        (unused_draw_of_numpy, "helper.noise"),
        (unused_draw_of_older_numpy, "helper.older_noise"),
        (unused_draw_of_torch, "torch_dice"),
        (unused_step, "letters"),
    ],
)
def test_state(change: Callable[[Any, torch.Tensor], Any], name: str) -> None:
    (problem,) = problems(Stateful(change))
    assert problem.startswith(f"DC124: forward() changes {name!r}, on which later calls depend"), problem


@pytest.mark.parametrize("position", [7, -7])
def test_state_that_a_position_determines(position: int) -> None:
    def first_position(self: Any, x: torch.Tensor) -> torch.Tensor:
        if self.lazy is None:
            self.lazy = x * 2
        return x + self.lazy

    (problem,) = problems(Stateful(first_position), torch.tensor([position]))
    assert problem.startswith("DC124: forward() changes 'lazy', on which later calls depend"), problem


def test_state_that_bfloat16_results_depend_on() -> None:
    held: Any = type("Held", (), {"history": []})

    class Appends(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            held.history.append(0)
            return torch.cat([x + len(held.history), torch.full_like(x, 11)])

    (problem,) = problems(Appends(), torch.ones(2, dtype=torch.bfloat16))
    assert problem.startswith("DC124: forward()")


def test_a_closure() -> None:
    calls = [0]

    def change(self: Any, x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return x * calls[0]

    (problem,) = problems(Stateful(change))
    assert problem.startswith("DC124: forward() changes 'change.calls[0]', on which later calls depend")
    assert calls == [1], "torch.export runs the module, and nothing else does in this process"


def test_strict_mode() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count, self.width = 0, 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x + self.width

    assert problems(Counter(), strict=True) == [
        "DC124: forward() changes 'count', on which later calls depend"
    ]
    assert problems(torch.nn.Linear(2, 2), strict=True) == []


@pytest.mark.parametrize(
    "change",
    [
        *(cache, buffer, assigned_buffer, written_in_place, written_by_constants),
        *(last_result, rebuilt, noise),
    ],
)
def test_caches_and_buffers(change: Callable[[Any, torch.Tensor], Any]) -> None:
    module = Stateful(change)
    assert problems(module) == []
    assert torch.equal(module.total, torch.zeros(2))


@pytest.mark.parametrize("change", [written_in_place, written_by_constants])
def test_initial_state_is_that_before_the_export(change: Callable[[Any, torch.Tensor], Any]) -> None:
    module = Stateful(change)
    (program,) = export(Model(module, (torch.ones(2),))).values()
    assert torch.equal(module.plain, torch.zeros(2))
    state = [value for name, value in program.constants.items() if "scale" not in name]
    assert state and all(torch.equal(value, torch.zeros(2)) for value in state)


def test_bits_of_one_element_with_strides() -> None:
    (number,) = torch.arange(4.0).view(2, 2)[1:, 1].split(1)
    assert torch.equal(bits(number.as_strided((1,), (2,))), bits(torch.tensor([3.0])))
