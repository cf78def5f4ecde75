# SPDX-License-Identifier: Apache-2.0
"""The cases of the peer's own Vulkan test suite: recorded where its tests would lower them, never copied."""

from __future__ import annotations

import importlib
import random
import unittest
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

import torch
from torch.export import ExportedProgram

from tests.peer.vulkan_lowering import quiet

_MODULE: Final = "executorch.backends.vulkan.test.test_vulkan_delegate"


@dataclass
class VulkanCase:
    """A module of one of the peer's tests.

    Attributes:
        program: the exported program, quantized if the test quantizes it.
        model: the module in eager mode, not quantized.
        calls: inputs of each call.
        absolute: the test's absolute tolerance.
        relative: its relative tolerance.
        outputs: the number of outputs that it compares; None for all.
    """

    program: ExportedProgram
    model: torch.nn.Module | None = None
    calls: Sequence[Sequence[Any]] = ()
    absolute: float = 1e-3
    relative: float = 1e-1
    outputs: int | None = None


@dataclass
class _Lowered:
    """Represents the result of the peer's lowering."""

    program: ExportedProgram
    cases: list[VulkanCase] = field(default_factory=list)

    def to_executorch(self) -> _Lowered:
        return self


def vulkan_tests() -> list[str]:
    """Returns the names of the test methods."""
    return [name for name in dir(_suite()) if name.startswith("test_")]


def record_vulkan(name: str) -> list[VulkanCase]:
    """Returns the cases of a test, with weights and inputs seeded by its name, without lowering them.

    Tests that the peer disables are included: their reasons are drivers.
    """
    recorded: list[VulkanCase] = []

    def run(
        _: unittest.TestCase,
        lowered: _Lowered,
        model: torch.nn.Module,
        inputs: Sequence[Any],
        atol: float = 1e-3,
        rtol: float = 1e-1,
        test_inputs: Sequence[Sequence[Any]] | None = None,
        first_output_only: bool = False,
    ) -> None:
        calls = [inputs, *(test_inputs or ())]
        outputs = 1 if first_output_only else None
        recorded.append(VulkanCase(lowered.program, model, calls, atol, rtol, outputs))

    suite = _suite()
    patched: dict[str, Any] = {
        "run_delegated_model_and_check_output": run,
        "check_vk_delegation": lambda *_: None,
        "check_no_delegation": lambda _, lowered: recorded.append(VulkanCase(lowered.program)),
    }
    method = getattr(suite, name)
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    random.seed(seed)
    with (
        quiet(),
        patch.multiple(suite, **patched),
        patch(f"{_MODULE}.to_edge_transform_and_lower", lambda program, **_: _Lowered(program)),
    ):
        getattr(method, "__wrapped__", method)(suite(name))
    return recorded


def _suite() -> Any:
    with quiet():
        return importlib.import_module(_MODULE).TestVulkanBackend
