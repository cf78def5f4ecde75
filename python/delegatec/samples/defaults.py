# SPDX-License-Identifier: Apache-2.0
"""Constants that the command line shows before torch is imported."""

from __future__ import annotations

from typing import Final

DEFAULT_CALLS: Final = 2
"""Calls of each method that an export makes in eager mode: the example, and a variation of it."""
