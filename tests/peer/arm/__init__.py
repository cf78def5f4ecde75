# SPDX-License-Identifier: Apache-2.0
"""The peer's own Arm operator tests, lowered by our compiler."""
