# SPDX-License-Identifier: Apache-2.0
"""Networks in plain PyTorch, of kinds that transformers does not have: narrow, with all parts."""
