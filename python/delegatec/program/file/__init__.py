# SPDX-License-Identifier: Apache-2.0
"""Serialization of `.pte` and `.ptd` files."""
