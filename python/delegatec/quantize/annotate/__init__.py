# SPDX-License-Identifier: Apache-2.0
"""Which values are quantized, and by which observers."""
