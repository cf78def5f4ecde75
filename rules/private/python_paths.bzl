# SPDX-License-Identifier: Apache-2.0
"""Import paths of a target's Python dependencies, in actions and in runfiles trees."""

load("@bazel_features//:features.bzl", "bazel_features")
load("@rules_python//python:defs.bzl", "PyInfo")
load(":labels.bzl", "repository_name")

# Bazel 7 has a `py_library` built in, whose provider is not that of rules_python 1 and later.
_BuiltinPyInfo = getattr(bazel_features.globals, "PyInfo", None) or PyInfo

PYTHON_PROVIDERS = [[PyInfo], [_BuiltinPyInfo]]

def python_info(target):
    """Returns the PyInfo of a target: that of rules_python, or the one that is built into Bazel.

    Args:
        target: any target.

    Returns:
        The provider, or None if the target has neither.
    """
    for provider in (PyInfo, _BuiltinPyInfo):
        if provider in target:
            return target[provider]
    return None

def import_roots(ctx, imports):
    """Returns the directories of import strings, as seen by an action.

    Args:
        ctx: the rule's context.
        imports: depset of strings `repository/path`, as in PyInfo.

    Returns:
        A list of paths relative to the execution root. Each string gives two: sources and generated files have separate trees.
    """
    roots = []
    for item in imports.to_list():
        repository, _, path = item.partition("/")
        source = path if repository == ctx.workspace_name else "external/" + item
        roots += [source or ".", ctx.bin_dir.path + "/" + source if source else ctx.bin_dir.path]
    return roots

def source_roots(ctx):
    """Returns the directories that the sources of a target (`srcs`) import from, as seen by an action.

    Args:
        ctx: the rule's context.

    Returns:
        A list of paths relative to the execution root, some of them repeatedly: in the order of a Python program, the
        directories of the sources, the first one's first, then the root of the workspace, and of its generated files.
    """
    root = ctx.label.workspace_root
    generated = ctx.bin_dir.path + "/" + root if root else ctx.bin_dir.path
    return [file.dirname or "." for file in ctx.files.srcs] + [root or ".", generated]

_NOTHING = struct(files = depset(), imports = depset())

def merged_python(ctx, targets):
    """Merges the Python of several targets.

    Args:
        ctx: the rule's context.
        targets: targets with PyInfo.

    Returns:
        A struct: `imports`, a depset of import strings, which include the roots of the targets' repositories as in any
        Python rule, and `files`, a depset of their sources and runfiles.
    """
    if not targets:
        return _NOTHING
    return struct(
        files = depset(transitive = [
            depset(transitive = [python_info(target).transitive_sources, target[DefaultInfo].default_runfiles.files])
            for target in targets
        ]),
        imports = depset(
            [repository_name(target.label) or ctx.workspace_name for target in targets],
            transitive = [python_info(target).imports for target in targets],
        ),
    )
