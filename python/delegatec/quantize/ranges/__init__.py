# SPDX-License-Identifier: Apache-2.0
"""Corrections of observed ranges: of values that share one, at poles, at the bounds of domains."""
