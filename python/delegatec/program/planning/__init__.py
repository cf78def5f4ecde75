# SPDX-License-Identifier: Apache-2.0
"""Linearization of a method to instructions, and placement of its values in memory."""
