# SPDX-License-Identifier: Apache-2.0
"""Runs blobs on the host, from the blob alone."""
