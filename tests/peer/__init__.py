# SPDX-License-Identifier: Apache-2.0
"""Our blobs compared with those of the peer's MPS compiler, for the same modules."""
