# SPDX-License-Identifier: Apache-2.0
"""The second half of a workspace's setup: it loads repositories that the first half declares."""

load("@bazel_skylib//:workspace.bzl", "bazel_skylib_workspace")

def rules_delegate_setup():
    """Registers the toolchains of the rules. Call it after `rules_delegate_repositories()`."""
    bazel_skylib_workspace()
    native.register_toolchains(
        "@rules_delegate//third_party/flatc:toolchain",
        "@rules_delegate//python/delegatec:toolchain",
    )
