# SPDX-License-Identifier: Apache-2.0
"""Torch's samples for tests of its operators."""

from __future__ import annotations

from tests.oracle.torch_testing import without_cpp_extensions

with without_cpp_extensions():
    from torch.testing._internal.common_methods_invocations import op_db as op_db
