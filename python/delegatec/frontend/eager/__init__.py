# SPDX-License-Identifier: Apache-2.0
"""The user's module, run as the user wrote it: what every later stage is compared with."""
