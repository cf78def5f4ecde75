# SPDX-License-Identifier: Apache-2.0
"""A quantized model in which layers can be in float, for a search."""
