# SPDX-License-Identifier: Apache-2.0
"""ExecuTorch's own runtime, out of the `executorch` wheel, for `program_test(runtime = ...)`.

The wheel is not among this package's dependencies: it comes from a lock of the workspace.
"""

from executorch_runtime.runtime import RUNTIME as RUNTIME
