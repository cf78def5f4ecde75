# SPDX-License-Identifier: Apache-2.0
"""Lowering of partitions to delegates."""
