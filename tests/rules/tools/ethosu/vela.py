# SPDX-License-Identifier: Apache-2.0
"""Replaces Vela, for analysis only."""
