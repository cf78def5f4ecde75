# SPDX-License-Identifier: Apache-2.0
"""A `delegatec.verify.runtime.Runtime` for VGF programs, for `//runtime:vgf`."""

from vgf_runtime.runtime import RUNTIME, VgfRuntime

__all__ = ["RUNTIME", "VgfRuntime"]
