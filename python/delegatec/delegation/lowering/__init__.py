# SPDX-License-Identifier: Apache-2.0
"""From partitions to delegates in their places."""
