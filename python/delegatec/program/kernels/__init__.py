# SPDX-License-Identifier: Apache-2.0
"""The runtime's kernels: their limits, rewrites of calls that they do not support, arguments."""
