# SPDX-License-Identifier: Apache-2.0
"""Convolution, pooling, resizing, padding, matrix products, normalization."""
