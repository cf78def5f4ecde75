# SPDX-License-Identifier: Apache-2.0
"""A `delegatec.verify.runtime.Runtime` of the wheel's Python bindings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import torch  # noqa: F401 - loads libraries that the bindings need

try:
    from executorch.extension.pybindings import _C as bindings  # type: ignore[import-untyped]  # noqa: N811
except ImportError:  # before 1.5
    from executorch.extension.pybindings import _portable_lib as bindings

if TYPE_CHECKING:
    from executorch_runtime.multimodal_runner import ExecutorchMultimodalRunner
    from executorch_runtime.text_runner import ExecutorchTextRunner


class ExecutorchRuntime:
    """The runtime with the kernels and delegates that the wheel contains."""

    @property
    def name(self) -> str:
        """The wheel's name and version."""
        return f"executorch {version('executorch').partition('+')[0]}"

    @property
    def backends(self) -> Collection[str]:
        """Ids of the delegates in the wheel."""
        return sorted(bindings._get_registered_backend_names())

    def load(self, pte: str, ptd: str | None, shares_state: bool) -> _Methods | _Module:
        """Maps a program, and loads its methods.

        Raises:
            NotImplementedError: methods share state, and weights are external.
            RuntimeError: the runtime rejects the program.
        """
        if ptd is None:
            return _Methods(pte)
        if shares_state:
            raise NotImplementedError(
                "its Python bindings cannot share state between methods of a program with external weights"
            )
        return _Module(pte, ptd)

    def load_text_runner(self, pte: str, ptd: str | None, tokenizer: str) -> ExecutorchTextRunner:
        """Loads a language model and its tokenizer.

        Raises:
            RuntimeError: the runner rejects them.
        """
        from executorch_runtime.text_runner import ExecutorchTextRunner

        return ExecutorchTextRunner(pte, ptd, tokenizer)

    def load_multimodal_runner(self, pte: str, ptd: str | None, tokenizer: str) -> ExecutorchMultimodalRunner:
        """Loads a language model of images and text, and its tokenizer.

        Raises:
            RuntimeError: the runner rejects them.
        """
        from executorch_runtime.multimodal_runner import ExecutorchMultimodalRunner

        return ExecutorchMultimodalRunner(pte, ptd, tokenizer)


class _Methods:
    """A program whose methods share their arenas after the first, and with them state.

    Loading a method writes its initial state, so that all are loaded before the first call.
    """

    def __init__(self, pte: str) -> None:
        program = bindings._load_program(pte)
        names = [program.get_method_name(index) for index in range(program.num_methods())]
        self._program = program
        self._methods = {name: program.load_method(name) for name in names}

    def run(self, method: str, inputs: Sequence[Any]) -> Sequence[Any]:
        """Runs a method; tensors among the outputs are copies."""
        outputs: Sequence[Any] = self._methods[method].call(inputs)
        return outputs


class _Module:
    """A program with external weights, whose methods share nothing."""

    def __init__(self, pte: str, ptd: str) -> None:
        self._module = bindings._load_for_executorch(pte, ptd)

    def run(self, method: str, inputs: Sequence[Any]) -> Sequence[Any]:
        """Runs a method; tensors among the outputs are copies."""
        outputs: Sequence[Any] = self._module.run_method(method, inputs)
        return outputs


RUNTIME: Final = ExecutorchRuntime()
