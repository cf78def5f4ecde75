# SPDX-License-Identifier: Apache-2.0
"""The repositories that Bazel and the rules load."""

load(":archive.bzl", "distribution_or_http_archive")
load(":builtin_rules.bzl", "BUILTIN_CC_RULES", "builtin_rules")
load(":coverage_tools.bzl", "coverage_tools")

# Debian's rules_cc 0.0.4 loads a symbol that Debian's Bazel 4.2.3 does not have.
_WITHOUT_USE_CPP_TOOLCHAIN = """\
, "use_cpp_toolchain") => )
use_cpp_toolchain() => ["@bazel_tools//tools/cpp:toolchain_type"]"""

# Revisions and hashes are those that Bazel 4.2.3 uses itself; skylib is the release of that time.
_ARCHIVES = {
    "bazel_skylib": struct(
        additions = {},
        distribution_path = "/usr/share/bazel/tools/skylib",
        distribution_edits = {},
        sha256 = "1c531376ac7e5a180e0237938a2536de0c54d93f5c278634818e0efc952dd56c",
        strip_prefix = "",
        path = "bazel-skylib/releases/download/1.0.3/bazel-skylib-1.0.3.tar.gz",
    ),
    "rules_cc": struct(
        additions = BUILTIN_CC_RULES,
        distribution_path = "/usr/share/bazel/rules/cc",
        distribution_edits = {
            "cc/private/rules_impl/cc_flags_supplier.bzl": _WITHOUT_USE_CPP_TOOLCHAIN,
            "cc/private/rules_impl/compiler_flag.bzl": _WITHOUT_USE_CPP_TOOLCHAIN,
        },
        sha256 = "d0c573b94a6ef20ef6ff20154a23d0efcb409fb0e1ff0979cec318dfe42f0cdd",
        strip_prefix = "rules_cc-b1c40e1de81913a3c40e5948f78719c28152486d",
        path = "rules_cc/archive/b1c40e1de81913a3c40e5948f78719c28152486d.zip",
    ),
    "rules_java": struct(
        additions = {},
        distribution_path = "/usr/share/bazel/rules/java",
        distribution_edits = {},
        sha256 = "bc81f1ba47ef5cc68ad32225c3d0e70b8c6f6077663835438da8d5733f917598",
        strip_prefix = "rules_java-7cf3cefd652008d0a64a419c34c13bdca6c8f178",
        path = "rules_java/archive/7cf3cefd652008d0a64a419c34c13bdca6c8f178.zip",
    ),
}

_MIRRORS = [
    "https://mirror.bazel.build/github.com/bazelbuild/",
    "https://github.com/bazelbuild/",
]

def bazel_repositories(existing):
    """Declares the rule sets that the rules or every test load, bazel_skylib, and the coverage tools.

    Args:
        existing: names of repositories that the workspace has already declared, which are not changed.
    """
    for name, archive in _ARCHIVES.items():
        if name not in existing:
            distribution_or_http_archive(
                name = name,
                additions = archive.additions,
                distribution_edits = archive.distribution_edits,
                distribution_path = archive.distribution_path,
                sha256 = archive.sha256,
                strip_prefix = archive.strip_prefix,
                urls = [mirror + archive.path for mirror in _MIRRORS],
            )
    builtin_rules(existing)
    if "remote_coverage_tools" not in existing:
        coverage_tools(name = "remote_coverage_tools")
