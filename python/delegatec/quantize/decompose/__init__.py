# SPDX-License-Identifier: Apache-2.0
"""Operators as simpler ones, before observers see their values."""
