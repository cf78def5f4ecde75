# SPDX-License-Identifier: Apache-2.0
"""The version of the compiler, as recorded in manifests."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
