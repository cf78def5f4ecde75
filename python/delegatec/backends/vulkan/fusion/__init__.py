# SPDX-License-Identifier: Apache-2.0
"""Passes that replace several calls of a private program by one operator of the runtime."""
