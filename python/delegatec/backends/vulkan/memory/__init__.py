# SPDX-License-Identifier: Apache-2.0
"""Memory of tensors on the device: storage, layout, transitions between them, and sharing."""
