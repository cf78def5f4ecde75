# SPDX-License-Identifier: Apache-2.0
"""The user's module, run as the user wrote it: the reference for every later stage."""
