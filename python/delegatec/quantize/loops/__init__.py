# SPDX-License-Identifier: Apache-2.0
"""Loops while they are observed: calls in one graph, without bodies."""
