# SPDX-License-Identifier: Apache-2.0
"""The Vulkan delegate: graphs of shaders for GPUs, run by the Vulkan runtime of ExecuTorch."""

from typing import Final

from delegatec.backends.vulkan.backend import VULKAN
from delegatec.delegation import Backend

BACKEND: Final[Backend] = VULKAN
