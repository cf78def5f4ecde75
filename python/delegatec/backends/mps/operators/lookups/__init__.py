# SPDX-License-Identifier: Apache-2.0
"""Operators that read and write at positions."""
