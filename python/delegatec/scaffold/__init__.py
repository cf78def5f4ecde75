# SPDX-License-Identifier: Apache-2.0
"""A first model file and BUILD file for a model that exists elsewhere."""

from __future__ import annotations

from delegatec.scaffold.package import files, package_of
from delegatec.scaffold.sources import ModelSource, source_of

__all__ = ["ModelSource", "files", "package_of", "source_of"]
