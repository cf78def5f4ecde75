# SPDX-License-Identifier: Apache-2.0
"""Our blobs beside those of the peer's own MPS compiler, for the same modules."""
