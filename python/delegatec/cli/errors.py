# SPDX-License-Identifier: Apache-2.0
"""What a verb raises when its command line is wrong."""

from __future__ import annotations


class CommandLineError(Exception):
    """The command line is wrong: exit code 2."""
