# SPDX-License-Identifier: Apache-2.0
"""The compiler's own version, as manifests name it."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
