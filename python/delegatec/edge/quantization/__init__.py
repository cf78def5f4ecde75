# SPDX-License-Identifier: Apache-2.0
"""Quantization in a program: its operators, constants, scales and layers, in one form for all backends."""
