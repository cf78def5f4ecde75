# SPDX-License-Identifier: Apache-2.0
"""How a program is laid out in its file and in memory, as far as that is the user's choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

from delegatec.diagnostics import DelegatecError, Diagnostic

# Kernels load vectors of this many bytes; the runtime's own compiler aligns to it as well.
_LEAST_TENSOR_ALIGNMENT: Final = 16
# Pages of 2 MiB are the largest that a file is mapped in; beyond 1 GiB an alignment is a mistake.
_LARGEST_ALIGNMENT: Final = 2**30


@dataclass(frozen=True)
class ProgramOptions:
    """Layout options. Alignments are in bytes: powers of two up to 1 GiB.

    Attributes:
        segment_alignment: of every segment in the file. A page (4096, or 16384 on Apple's devices) lets the
            runtime map a segment by itself, and hand its pages back when a delegate has been made of it.
        constant_alignment: of each constant in its segment, and of the initial bytes of each mutable buffer;
            16 or more.
        delegate_alignment: of each delegate's blob, where it needs more than a segment.
        inline_delegates: whether blobs lie inside the FlatBuffer. A reader then has them as soon as it has
            the program, but cannot free them by themselves, and building them takes a copy.
        plan_inputs: whether tensors that a caller passes are copied into planned memory. Without, the program
            reads them where they are, and they must stay there while it runs. An input that the program
            writes to is always used where it is.
        plan_outputs: whether outputs are in planned memory. Without, the caller gives memory for each.

    Raises:
        DelegatecError: DC310, one diagnostic for each option with a value that it cannot have.
    """

    segment_alignment: int = 128
    constant_alignment: int = 16
    delegate_alignment: int = 16
    inline_delegates: bool = False
    plan_inputs: bool = True
    plan_outputs: bool = True

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise DelegatecError(problems)

    def _problems(self) -> Iterator[Diagnostic]:
        for field in fields(self):
            if not field.name.endswith("_alignment"):
                continue
            value = getattr(self, field.name)
            least = _LEAST_TENSOR_ALIGNMENT if field.name == "constant_alignment" else 1
            if not least <= value <= _LARGEST_ALIGNMENT or value & (value - 1):
                yield Diagnostic(
                    "DC310",
                    f"{field.name} cannot be {value}",
                    expected=f"a power of two from {least} to {_LARGEST_ALIGNMENT}",
                    help=f"omit it to use the default, {field.default}",
                )
