# SPDX-License-Identifier: Apache-2.0
"""The models of the comparison for Vulkan: the benchmark's, trained ones, and modules of the peer's tests."""

from __future__ import annotations

import importlib
import logging
import unittest
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import models
import torch

from delegatec import Model

_SUITE: Final = "executorch.backends.vulkan.test.test_vulkan_delegate"
# Those of its tests that combine operators with different demands on memory.
_TESTS: Final = (
    "different_required_reprs",
    "cat_different_reprs",
    "group_norm",
    "batch_norm_after_linear",
    "conv2d_bias_false",
    "large_linear_layer",
)


def minilm() -> Model:
    """Returns the trained sentence encoder of the examples."""
    return _built("minilm")


def digits() -> Model:
    """Returns the trained classifier of the examples."""
    return _built("digits")


def _built(name: str) -> Model:
    model: Model = importlib.import_module(name).build()
    return model


def peer_test(test: str) -> Model:
    """Returns the first module that one of the peer's tests lowers, with its inputs."""
    import torchao.quantization  # noqa: F401 - registers operators that the peer's backend refers to

    suite: Any = importlib.import_module(_SUITE).TestVulkanBackend
    logging.getLogger().setLevel(logging.WARNING)
    found: list[tuple[torch.nn.Module, tuple[torch.Tensor, ...]]] = []

    def record(
        _: unittest.TestCase, module: torch.nn.Module, inputs: Any, *__: object, **___: object
    ) -> None:
        found.append((module, tuple(inputs)))

    method = f"test_vulkan_backend_{test}"
    recording = type("Recording", (suite,), {"lower_module_and_test_output": record})
    getattr(recording(method), method)()
    return Model(*found[0], strict=True)


# Name in the table -> its builder.
VULKAN_MODELS: Final[dict[str, Callable[[], Model]]] = {
    **{name: build for name, build in models.MODELS.items() if build is not models.linear_stack},
    "MiniLM": minilm,
    "digits": digits,
    **{f"peer's {test.replace('_', ' ')}": partial(peer_test, test) for test in _TESTS},
}
