# SPDX-License-Identifier: Apache-2.0
"""Operators of the Vulkan runtime: their rows, memory requirements and lowerings."""
