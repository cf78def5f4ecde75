# SPDX-License-Identifier: Apache-2.0
"""Attributes that control which parts of a program are delegated, and to which backends.

`delegatec.delegation.partitioning.rules` is the authority; the checks here run before anything is built.
"""

load(":options.bzl", "fail_with")

DELEGATION_ATTRS = {
    "all_or_nothing": attr.bool(
        default = False,
        doc = "Whether to delegate each method as a whole or not at all.",
    ),
    "allow_modules": attr.string_list(
        doc = "Delegates only what runs in these submodules of the model, such as `encoder.layer.0`; wildcards `* ? [ ]`. All if empty.",
    ),
    "allow_operators": attr.string_list(
        doc = "Delegates only these operators of the edge program, such as `aten.add` or `aten.add.Tensor`; wildcards `* ? [ ]`. All if empty.",
    ),
    "block_modules": attr.string_list(
        doc = "Does not delegate what runs in these submodules.",
    ),
    "block_operators": attr.string_list(
        doc = "Does not delegate these operators.",
    ),
    "maximum_delegates": attr.int(
        default = -1,
        doc = "Maximum number of delegates in a method; the largest are kept. -1 for no limit.",
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
        doc = "Whether an operator that no backend supports is an error instead of running on the CPU.",
    ),
}

_LISTS = ["allow_modules", "allow_operators", "block_modules", "block_operators"]

def add_delegation_arguments(ctx, args):
    """Adds the flags of these attributes, if the rule has them.

    Args:
        ctx: the rule's context.
        args: Args of the compiler.
    """
    if not hasattr(ctx.attr, "minimum_nodes"):
        return
    for name, least in {"maximum_delegates": -1, "minimum_nodes": 1}.items():
        if getattr(ctx.attr, name) < least:
            fail_with(
                ctx.label,
                "DC412",
                "%s cannot be %d" % (name, getattr(ctx.attr, name)),
                expected = "%d or more" % least,
            )
    for method in sorted(ctx.attr.method_backends):
        args.add_all(
            ["%s=%s" % (method, backend) for backend in ctx.attr.method_backends[method]],
            format_each = "--method-backend=%s",
        )
    for name in _LISTS:
        args.add_all(getattr(ctx.attr, name), format_each = "--%s=%%s" % name[:-1].replace("_", "-"))
    if ctx.attr.minimum_nodes != 1:
        args.add(ctx.attr.minimum_nodes, format = "--minimum-nodes=%s")
    if ctx.attr.maximum_delegates != -1:
        args.add(ctx.attr.maximum_delegates, format = "--maximum-delegates=%s")
    if ctx.attr.all_or_nothing:
        args.add("--all-or-nothing")
    if ctx.attr.require_full_delegation:
        args.add("--require-full-delegation")
