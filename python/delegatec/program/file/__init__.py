# SPDX-License-Identifier: Apache-2.0
"""The bytes of .pte and .ptd files."""
