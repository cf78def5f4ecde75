# SPDX-License-Identifier: Apache-2.0
"""Torch's samples for tests of its operators."""

from __future__ import annotations

import sys
import types

# Their module imports the compiler of C++ extensions, which needs setuptools; samples do not use it.
sys.modules.setdefault("torch.utils.cpp_extension", types.ModuleType("torch.utils.cpp_extension"))

from torch.testing._internal.common_methods_invocations import op_db as op_db  # noqa: E402
