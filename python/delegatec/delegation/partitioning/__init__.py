# SPDX-License-Identifier: Apache-2.0
"""Partitioning: partition rules, checks of partitioners, and composite operators."""
