# SPDX-License-Identifier: Apache-2.0
"""Passes over an edge program, one a file, and the order in which they run."""
