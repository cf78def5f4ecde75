# SPDX-License-Identifier: Apache-2.0
"""Operators that fold, order and search along dimensions."""
