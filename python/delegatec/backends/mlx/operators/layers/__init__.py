# SPDX-License-Identifier: Apache-2.0
"""Products, convolutions, pools, normalization and attention."""
