# SPDX-License-Identifier: Apache-2.0
"""Blobs made by hand, for every node type, with what they have to give. For tests."""
