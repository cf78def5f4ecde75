# SPDX-License-Identifier: Apache-2.0
"""Operators on quantized weights."""
