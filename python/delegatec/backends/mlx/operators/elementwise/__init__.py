# SPDX-License-Identifier: Apache-2.0
"""Functions of elements, and creation of tensors."""
