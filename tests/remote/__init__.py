# SPDX-License-Identifier: Apache-2.0
"""Remote execution on one machine. For tests only."""
