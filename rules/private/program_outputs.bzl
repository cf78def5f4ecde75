# SPDX-License-Identifier: Apache-2.0
"""What every target of a program provides."""

def program_outputs(ctx, info):
    """Returns the providers of a target of a program.

    Args:
        ctx: the rule's context.
        info: DelegateProgramInfo.

    Returns:
        A list: the program and its weights by default, descriptions in output groups, and `info`.
    """
    files = [info.program] + ([info.weights] if info.weights else [])
    return [
        DefaultInfo(
            files = depset(files),
            runfiles = ctx.runfiles(files),
        ),
        info,
        OutputGroupInfo(**{group: depset([getattr(info, group)]) for group in _GROUPS}),
    ]

# Fields of DelegateProgramInfo.
_GROUPS = ["blobs", "debug", "etrecord", "ir", "manifest", "reasons", "report", "selected_operators"]
