# SPDX-License-Identifier: Apache-2.0
"""Raises while it is imported."""

WIDTHS = {"small": 8}
WIDTH = WIDTHS["large"]
