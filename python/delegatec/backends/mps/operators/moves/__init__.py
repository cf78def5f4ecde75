# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, or only say what shape they have."""
