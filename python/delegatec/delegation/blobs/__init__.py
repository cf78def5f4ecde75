# SPDX-License-Identifier: Apache-2.0
"""Contents of delegates' blobs, for texts and drawings."""
