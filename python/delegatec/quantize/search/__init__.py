# SPDX-License-Identifier: Apache-2.0
"""The search for the layers that stay in float."""
