# SPDX-License-Identifier: Apache-2.0
"""Operators of the Vulkan runtime: their rows, what they demand of memory, and their lowerings."""
