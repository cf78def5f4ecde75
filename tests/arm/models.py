# SPDX-License-Identifier: Apache-2.0
"""Small models, lowered to programs."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch._higher_order_ops import while_loop
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.lowering import lower as lower_methods
from delegatec.program import ProgramOptions, write_program
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized

Sample = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]
"""A model and its inputs."""


@dataclass(frozen=True)
class Lowered:
    """A program whose operators are all delegated.

    Attributes:
        pte: the file.
        blobs: of its delegates.
    """

    pte: bytes
    blobs: tuple[bytes, ...]


class Images(torch.nn.Module):
    """A network of images: dense and depthwise convolutions, pools, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        layers = [
            *(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU()),
            *(
                torch.nn.MaxPool2d(2),
                torch.nn.Conv2d(8, 8, 3, groups=8, stride=2, padding=1),
                torch.nn.ReLU6(),
            ),
            *(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 5), torch.nn.Softmax(-1)),
        ]
        self.layers = torch.nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns probabilities of five classes."""
        return self.layers(x)


class Branches(torch.nn.Module):
    """A branch with a convolution, and a loop with a condition in it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the number of iterations, and the image after them."""

        def halved(h: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = torch.cond(h.sum() > 0, lambda h: h * 0.5 + 0.1, lambda h: h.sin(), (h,))
            return found

        first: torch.Tensor = torch.cond(
            x.sum() > 0, lambda h: self.layer(h).relu(), lambda h: h.sigmoid(), (x,)
        )
        loop: Any = while_loop
        found: tuple[torch.Tensor, torch.Tensor] = loop(
            lambda i, h: (i < 5) & (h.abs().mean() > 0.1),
            lambda i, h: (i + 1, halved(h) - 0.05),
            (torch.zeros((), dtype=torch.int32), first),
        )
        return found


def convolutions() -> Sample:
    """Returns `Images`, and an image."""
    torch.manual_seed(0)
    return Images().eval(), (torch.randn(1, 3, 16, 16),)


class Segments(torch.nn.Module):
    """A network from images to images, with an explicit padding and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.Conv2d(8, 4, 1)
        self.middle = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns four values for each pixel."""
        x = torch.relu(self.first(torch.nn.functional.pad(x, (0, 1, 0, 1))))
        x = x + torch.nn.functional.hardtanh(self.middle(x))
        return self.last(torch.nn.functional.interpolate(x, scale_factor=2.0))


def segments() -> Sample:
    """Returns `Segments`, and an image that is channels-last."""
    torch.manual_seed(0)
    return Segments().eval(), (torch.randn(1, 3, 16, 16).to(memory_format=torch.channels_last),)


def encoder() -> Sample:
    """Returns a layer of a transformer."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
    return layer.eval(), (torch.randn(1, 10, 32),)


MODELS: Final[Mapping[str, Callable[[], Sample]]] = {"convolutions": convolutions, "encoder": encoder}


def eager(model: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """Returns the outputs of a model in eager mode."""
    with torch.no_grad():
        return list(pytree.tree_leaves(model(*args)))


def exported(sample: Sample) -> ExportedProgram:
    """Returns a model as an exported program."""
    return torch.export.export(*sample)


def integers(sample: Sample) -> tuple[ExportedProgram, tuple[torch.Tensor, ...]]:
    """Returns a model in int8, with its inputs and outputs, and inputs in int8."""
    model, args = sample
    program = quantized(model, args, Settings(quantize_io=True)).methods["forward"]
    assert program.example_inputs is not None
    return program, program.example_inputs[0]


def lower(
    program: ExportedProgram, backend: str, program_options: ProgramOptions | None = None, **options: str
) -> Lowered:
    """Lowers a model; all its operators must be delegated. The program must not be used afterwards.

    The program converts int64 at the boundary of its delegate.
    """
    lowered = lower_methods({"forward": program}, backend, options or None, program_options=program_options)
    report = lowered.reports["forward"]
    assert len(report.delegates) == 1 and not report.rejections, report.rejections
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    return Lowered(file.getvalue(), tuple(each.module.blob_bytes() for each in report.delegates))
