# SPDX-License-Identifier: Apache-2.0
"""Channels-last operators, rewrites of ATen's to them, and the choice of a layout for each value."""
