# SPDX-License-Identifier: Apache-2.0
"""Where the Python of a target's dependencies is found, in an action and in a runfiles tree."""

def import_roots(ctx, imports):
    """The folders that import strings name, as an action sees them.

    Args:
        ctx: the rule's context.
        imports: depset of strings `repository/path`, as in PyInfo.

    Returns:
        A list of paths relative to the execution root. Each string gives two, as sources and generated files
        lie in trees of their own.
    """
    roots = []
    for item in imports.to_list():
        repository, _, path = item.partition("/")
        source = path if repository == ctx.workspace_name else "external/" + item
        roots += [source or ".", ctx.bin_dir.path + "/" + source if source else ctx.bin_dir.path]
    return roots

def merged_python(ctx, targets):
    """What several Python targets have together.

    Args:
        ctx: the rule's context.
        targets: targets with PyInfo.

    Returns:
        A struct: `imports`, a depset of import strings, the roots of the targets' repositories among them as in any
        Python rule, and `files`, a depset of their sources and run files.
    """
    return struct(
        files = depset(transitive = [
            depset(transitive = [target[PyInfo].transitive_sources, target[DefaultInfo].default_runfiles.files])
            for target in targets
        ]),
        imports = depset(
            [target.label.workspace_name or ctx.workspace_name for target in targets],
            transitive = [target[PyInfo].imports for target in targets],
        ),
    )
