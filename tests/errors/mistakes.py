# SPDX-License-Identifier: Apache-2.0
"""The table of mistakes, by the part of the compiler's input that they are in."""

from __future__ import annotations

from typing import Final

import mistakes_of_accuracy
import mistakes_of_adapters
import mistakes_of_commands
import mistakes_of_entries
import mistakes_of_files
import mistakes_of_inference
import mistakes_of_kernels
import mistakes_of_language_models
import mistakes_of_manifests
import mistakes_of_models
import mistakes_of_modules
import mistakes_of_plugins
import mistakes_of_profiles
import mistakes_of_python
import mistakes_of_quantization
import mistakes_of_tracing
from mistake import Mistake

GROUPS: Final[dict[str, tuple[Mistake, ...]]] = {
    **mistakes_of_commands.TABLE,
    **mistakes_of_models.TABLE,
    **mistakes_of_entries.TABLE,
    **mistakes_of_modules.TABLE,
    **mistakes_of_tracing.TABLE,
    **mistakes_of_inference.TABLE,
    **mistakes_of_files.TABLE,
    **mistakes_of_quantization.TABLE,
    **mistakes_of_language_models.TABLE,
    **mistakes_of_adapters.TABLE,
    **mistakes_of_manifests.TABLE,
    **mistakes_of_accuracy.TABLE,
    **mistakes_of_profiles.TABLE,
    **mistakes_of_python.TABLE,
    **mistakes_of_plugins.TABLE,
    **mistakes_of_kernels.TABLE,
}
MISTAKES: Final = {f"{group}: {each.does}": each for group, several in GROUPS.items() for each in several}
