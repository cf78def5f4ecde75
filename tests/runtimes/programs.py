# SPDX-License-Identifier: Apache-2.0
"""Programs that tests run in several runtimes, next to the compiler's executors and eager mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim

from delegatec.backends import builtin_backends
from delegatec.edge.testing import export
from delegatec.frontend.export import export as export_model
from delegatec.frontend.model import Method, Model
from delegatec.lowering import lower
from delegatec.program import weights_of, write_flat_tensors, write_program
from delegatec.verify import Verification
from delegatec.verify.runtime import Runtime
from delegatec.verify.verification import verify_program

Methods = dict[str, Any]
"""Method -> its exported program."""


class Network(torch.nn.Module):
    """Layers for XNNPACK, channels-last, and calls of kernels, also of one that needs temporary memory."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
        y = self.conv(x).relu()
        return y * scale, y.double().cumsum(1), y.sort(1)[1].to(torch.bfloat16), x.shape[0]


class Counter(torch.nn.Module):
    """State that two methods share, and an input that one writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.get_buffer("total").add_(self.layer(x).sum(0))
        return self.get_buffer("total") * 2

    def take(self, cache: torch.Tensor) -> torch.Tensor:
        cache.add_(self.get_buffer("total"))
        return cache * 2


class Zeros(torch.nn.Module):
    """State of zeros, from less than the block that a file shares to a hundred times as much."""

    def __init__(self) -> None:
        super().__init__()
        for index, size in enumerate((1, 4096, 5000, 300_000)):
            self.register_buffer(f"state_{index}", torch.zeros(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        extrema = []
        for state in self.buffers():
            state += x
            extrema += [state.amin(), state.amax()]
        return torch.stack(extrema)


def network() -> Methods:
    """Returns a program with a dynamic batch."""
    torch.manual_seed(0)
    x = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    batch = Dim("batch", min=1, max=5)
    return {"forward": export(Network().eval(), x, 0.5, dynamic_shapes={"x": {0: batch}, "scale": None})}


def counter() -> Methods:
    """Returns two methods that share state."""
    torch.manual_seed(0)
    x = torch.rand(3, 4)
    return export_model(Model(Counter().eval(), (x,), methods={"take": Method("take", (x,))}))


def zeros() -> Methods:
    """Returns a program whose file has few of the zeros of its state."""
    return export_model(Model(Zeros(), (torch.tensor([2.0]),)))


def written(
    folder: Path, methods: Mapping[str, Any], *, external: bool = False, **options: Any
) -> tuple[Path, Path | None]:
    """Lowers methods to `p.pte` in a folder, and returns its path, and that of its external weights."""
    pte, ptd = folder / "p.pte", folder / "p.ptd"
    if external:
        with open(ptd, "wb") as file:
            write_flat_tensors(weights_of(methods), file)
    with open(pte, "wb") as file:
        write_program(lower(methods, external_weights=external, **options).emitted, file)
    return pte, ptd if external else None


def verified(
    folder: Path,
    make: Callable[[], Methods],
    runtime: Runtime,
    *,
    of: Callable[[], Methods] | None = None,
    **options: Any,
) -> Verification:
    """Compares a program with eager mode in the compiler's executor and in a runtime.

    Args:
        folder: for the files.
        make: returns the methods to lower.
        runtime: the runtime.
        of: returns the methods to compare with; by default, the same.
        **options: as of `written`.
    """
    pte, ptd = written(folder, make(), **options)
    return verify_program(pte, (of or make)(), builtin_backends(), runtimes=[runtime], ptd=ptd, atol=1e-5)
