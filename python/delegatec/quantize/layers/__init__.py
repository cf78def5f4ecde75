# SPDX-License-Identifier: Apache-2.0
"""Quantized weights of layers whose activations are not static."""
