# SPDX-License-Identifier: Apache-2.0
"""ExecuTorch's C++ runtime, which `//runtime:runner` links, for `program_test(runtime = ...)`."""

from executorch_runner.runtime import RUNTIME as RUNTIME
