# SPDX-License-Identifier: Apache-2.0
"""Delegates as modules, the operator that calls them, and the nodes that they were made from."""
