# SPDX-License-Identifier: Apache-2.0
"""Errors of the command line."""

from __future__ import annotations


class CommandLineError(Exception):
    """Invalid command line: exit code 2.

    Attributes:
        verb: the verb whose help explains it; empty for all.
    """

    def __init__(self, message: str, verb: str = "") -> None:
        super().__init__(message)
        self.verb = verb
