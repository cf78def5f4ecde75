# SPDX-License-Identifier: Apache-2.0
"""The oracle: the stock ExecuTorch runtime, from the peer's wheel. For tests only."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from executorch.extension.pybindings import _portable_lib


class OracleProgram:
    """A program that the stock runtime has loaded.

    State (mutable buffers) lasts from one run to the next.

    Args:
        pte: the file, or its bytes.
        ptd: its data file, or the bytes of it.

    Raises:
        RuntimeError: the runtime rejects the file.
    """

    def __init__(self, pte: Path | str | bytes, ptd: Path | str | bytes | None = None) -> None:
        if isinstance(pte, bytes):
            assert ptd is None or isinstance(ptd, bytes), "the runtime supports two files, or two buffers"
            self._module = _portable_lib._load_for_executorch_from_buffer(pte, ptd)
            self._kept = pte, ptd  # the runtime keeps pointers into them
        else:
            self._module = _portable_lib._load_for_executorch(str(pte), None if ptd is None else str(ptd))

    @property
    def methods(self) -> list[str]:
        """Names of its methods."""
        return list(self._module.method_names())

    def run(self, inputs: Sequence[Any], method: str = "forward") -> list[Any]:
        """Runs a method.

        Args:
            inputs: tensors and scalars, flat. They are copied first: the runtime may keep pointers.
            method: its name.

        Returns:
            Its outputs, flat; tensors are copies.

        Raises:
            RuntimeError: the runtime rejects the inputs, or an instruction fails.
        """
        copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
        outputs = self._module.run_method(method, copies)
        return [value.clone() if isinstance(value, torch.Tensor) else value for value in outputs]


def mapped(pte: bytes, ptd: bytes | None = None) -> OracleProgram:
    """Loads a program from a file, as apps do: the runtime maps its data, and unmaps what it frees.

    A program in memory hides that data is read after it is freed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, data = Path(folder) / "program.pte", Path(folder) / "weights.ptd"
        path.write_bytes(pte)
        if ptd is not None:
            data.write_bytes(ptd)
        return OracleProgram(path, None if ptd is None else data)


def run(pte: Path | str | bytes, inputs: Sequence[Any], method: str = "forward") -> list[Any]:
    """Loads a program, runs one of its methods once, and returns the outputs. See `OracleProgram`."""
    return OracleProgram(pte).run(inputs, method)


def operators() -> frozenset[str]:
    """Full names of the kernels that the runtime has, such as "aten::add.out"."""
    return frozenset(_portable_lib._get_operator_names())
