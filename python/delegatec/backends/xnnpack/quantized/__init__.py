# SPDX-License-Identifier: Apache-2.0
"""Quantized values: which of them the runtime keeps as integers, and in which form."""
