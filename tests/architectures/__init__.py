# SPDX-License-Identifier: Apache-2.0
"""Tests against the runtime and the compiler of the peer, the `executorch` wheel. Nothing else imports it."""
