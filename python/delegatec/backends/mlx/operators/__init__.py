# SPDX-License-Identifier: Apache-2.0
"""The operators of the MLX backend."""
