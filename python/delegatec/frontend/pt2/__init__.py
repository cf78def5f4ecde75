# SPDX-License-Identifier: Apache-2.0
"""Reader of `.pt2` archives that evaluates, imports and unpickles nothing."""
