# SPDX-License-Identifier: Apache-2.0
"""The wheels of ExecuTorch that contain its C++ runtime, by platform."""

VERSION = "1.5.1"

# Name of a platform -> its constraints, the tag of the wheel, and its SHA-256. The libraries do not depend on the version
# of Python; these are the wheels of 3.11. Only Linux was tried.
WHEELS = {
    "linux_aarch64": struct(
        constraints = ["@platforms//os:linux", "@platforms//cpu:aarch64"],
        sha256 = "8ee02348a3ea80ddf770822911ebf78da616b73afce0fbaaa79f23311c88c66a",
        tag = "manylinux_2_28_aarch64",
    ),
    "linux_x86_64": struct(
        constraints = ["@platforms//os:linux", "@platforms//cpu:x86_64"],
        sha256 = "274c28c2fe2b76acb03f9fa381537425c40e0098dcf886baf6d97a1a55ffe300",
        tag = "manylinux_2_28_x86_64",
    ),
}
