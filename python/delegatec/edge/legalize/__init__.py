# SPDX-License-Identifier: Apache-2.0
"""The one way to rewrite: targets say which calls are legal, and rules turn others into those."""
