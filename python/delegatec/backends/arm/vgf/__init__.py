# SPDX-License-Identifier: Apache-2.0
"""The VGF backend: TOSA graphs as SPIR-V for Vulkan with Arm's extensions, by Arm's model converter."""
