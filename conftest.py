# SPDX-License-Identifier: Apache-2.0
"""What pytest needs where Bazel does not run it; see rules/private/testing/pytest_main.py."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "rules/private/testing"))
pytest_plugins = [
    "materialized_operators",
    "rare_collections",
    "record_options",
    "sampled_cases",
    "verified_passes",
]
