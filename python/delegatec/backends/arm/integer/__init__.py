# SPDX-License-Identifier: Apache-2.0
"""Conversion of quantize and dequantize pairs to integer arithmetic."""
