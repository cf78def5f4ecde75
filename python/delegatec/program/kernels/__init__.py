# SPDX-License-Identifier: Apache-2.0
"""What the runtime's kernels take: limits, rewrites of what they do not take, arguments."""
