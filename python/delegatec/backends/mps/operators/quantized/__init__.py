# SPDX-License-Identifier: Apache-2.0
"""8-bit and 4-bit weights."""
