# SPDX-License-Identifier: Apache-2.0
"""Operators that compute element by element."""
