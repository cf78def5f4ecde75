# SPDX-License-Identifier: Apache-2.0
"""Compile specs: settings of a backend's compiler, stored in the program for its runtime."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class CompileSpec:
    """One setting, as the runtime sees it.

    Attributes:
        key: its name, such as "use_fp16".
        value: opaque bytes; the backend defines their meaning.
    """

    key: str
    value: bytes
