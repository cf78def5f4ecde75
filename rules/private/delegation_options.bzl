# SPDX-License-Identifier: Apache-2.0
"""Attributes that control which parts of a program are delegated, and to which backends.

`delegatec.delegation.partitioning.rules` is the authority; the checks here run before anything is built.
"""

load(":compiler_tables.bzl", "NOTES")
load(":options.bzl", "did_you_mean", "fail_with_all", "problem")

DELEGATION_ATTRS = {
    "all_or_nothing": attr.bool(
        default = False,
        doc = "Whether to delegate each method as a whole or not at all.",
    ),
    "allow_modules": attr.string_list(
        doc = "Delegates only what runs in these submodules of the model, such as `encoder.layer.0`; wildcards `* ? [ ]`. All if empty.",
    ),
    "allow_operators": attr.string_list(
        doc = "Delegates only these operators of the model or of the edge program that it becomes, such as `aten.conv2d`, `aten.add` or `aten.add.Tensor`; wildcards `* ? [ ]`. All if empty.",
    ),
    "block_modules": attr.string_list(
        doc = "Does not delegate what runs in these submodules.",
    ),
    "block_operators": attr.string_list(
        doc = "Does not delegate these operators.",
    ),
    "maximum_delegates": attr.int(
        default = -1,
        doc = "Maximum number of delegates in a method, at least 1; the largest are kept. -1 for no limit.",
    ),
    "method_backends": attr.string_list_dict(
        doc = "Backends of individual methods, in order of priority, instead of the target's own; `[\"portable\"]` for none.",
    ),
    "minimum_nodes": attr.int(
        default = 1,
        doc = "Minimum number of operators in a delegate; smaller partitions run on the CPU.",
    ),
    "require_full_delegation": attr.bool(
        default = False,
        doc = "Whether everything that runs on the CPU is an error: operators that no backend supports, and copies to outputs or state.",
    ),
    "silenced_notes": attr.string_list(
        doc = "Kinds of notes to leave out, such as `transposed-input`: what the program could save, and what was changed for its device.",
    ),
}

# Attributes whose values are at least 1, and the help about smaller ones.
_COUNTS = {
    "maximum_delegates": "to delegate nothing, write backends = [\"portable\"]; without a limit, it is -1, the default",
    "minimum_nodes": "",
}

_NO_LIMIT = ("maximum_delegates", -1)

_LISTS = {
    "allow_modules": "--allow-module=",
    "allow_operators": "--allow-operator=",
    "block_modules": "--block-module=",
    "block_operators": "--block-operator=",
    "silenced_notes": "--silence-note=",
}

def delegation_flags(ctx):
    """Returns the compiler's flags for these attributes, if the rule has them.

    Args:
        ctx: the rule's context.

    Returns:
        A list of strings.
    """
    values = ctx.attr
    if not hasattr(values, "minimum_nodes"):
        return []
    fail_with_all(ctx.label, [
        problem("DC412", "%s cannot be %d" % (name, getattr(values, name)), expected = "1 or more", help = help)
        for name, help in _COUNTS.items()
        if getattr(values, name) < 1 and (name, getattr(values, name)) != _NO_LIMIT
    ])
    fail_with_all(ctx.label, [
        problem("DC425", "no note is named \"%s\"" % name, expected = ", ".join(NOTES), help = did_you_mean(name, NOTES))
        for name in values.silenced_notes
        if name not in NOTES
    ])
    flags = [
        "--method-backend=%s=%s" % (method, backend)
        for method in sorted(values.method_backends)
        for backend in values.method_backends[method]
    ]
    for name, flag in _LISTS.items():
        flags += [flag + value for value in getattr(values, name)]
    if values.minimum_nodes != 1:
        flags.append("--minimum-nodes=%d" % values.minimum_nodes)
    if values.maximum_delegates != -1:
        flags.append("--maximum-delegates=%d" % values.maximum_delegates)
    if values.all_or_nothing:
        flags.append("--all-or-nothing")
    if values.require_full_delegation:
        flags.append("--require-full-delegation")
    return flags
