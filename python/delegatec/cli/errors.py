# SPDX-License-Identifier: Apache-2.0
"""Errors of the command line."""

from __future__ import annotations


class CommandLineError(Exception):
    """Invalid command line: exit code 2."""
