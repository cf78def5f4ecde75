# SPDX-License-Identifier: Apache-2.0
"""The peer's own tests of its XNNPACK delegate, lowered by both compilers and run in the stock runtime."""
