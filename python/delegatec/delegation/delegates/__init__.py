# SPDX-License-Identifier: Apache-2.0
"""Delegates as modules, the operator that calls them, and their original nodes."""
