# SPDX-License-Identifier: Apache-2.0
"""Compile specs: what a backend's compiler was told, stored in the program and handed to its runtime."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class CompileSpec:
    """One setting, as the runtime sees it.

    Attributes:
        key: its name, such as "use_fp16".
        value: opaque bytes; their meaning belongs to the backend.
    """

    key: str
    value: bytes
