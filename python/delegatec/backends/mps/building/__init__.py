# SPDX-License-Identifier: Apache-2.0
"""Construction of a blob's graph."""
