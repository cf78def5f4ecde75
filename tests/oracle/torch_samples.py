# SPDX-License-Identifier: Apache-2.0
"""The samples that torch tests its own operators with."""

from __future__ import annotations

import sys
import types

# Their module imports what compiles C++ extensions, which needs setuptools; no sample compiles any.
sys.modules.setdefault("torch.utils.cpp_extension", types.ModuleType("torch.utils.cpp_extension"))

from torch.testing._internal.common_methods_invocations import op_db as op_db  # noqa: E402
