# SPDX-License-Identifier: Apache-2.0
"""Pools along any dimensions, for targets whose windows are views of a tensor."""
