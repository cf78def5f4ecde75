# SPDX-License-Identifier: Apache-2.0
"""Handwritten blobs for every node type, with expected results, for tests."""
