# SPDX-License-Identifier: Apache-2.0
"""Passes over an edge program, one per file, and the order in which they run."""
