# SPDX-License-Identifier: Apache-2.0
"""The MLX backend: Apple GPUs, by the MLX delegate of ExecuTorch."""

from typing import Final

from delegatec.backends.mlx.backend import MLX
from delegatec.delegation import Backend

BACKEND: Final[Backend] = MLX
