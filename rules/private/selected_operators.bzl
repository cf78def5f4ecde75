# SPDX-License-Identifier: Apache-2.0
"""`selected_operators`: what an app links for all programs that targets are made of."""

load(":delegatec_action.bzl", "ACTION_ATTRS", "delegatec_action", "delegatec_arguments")
load(":labels.bzl", "label_text")
load(":options.bzl", "fail_with")
load(":program_index.bzl", "ProgramsInfo", "programs_aspect")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def list_operators(ctx, manifests):
    """Declares the action that lists what programs need, on demand.

    Args:
        ctx: the context of a rule with the delegatec toolchain.
        manifests: depset of File: the programs' manifests.

    Returns:
        A depset of File: `NAME.selected_operators.yaml` and `NAME.runtime.json`.
    """
    selected = ctx.actions.declare_file(ctx.label.name + ".selected_operators.yaml")
    runtime = ctx.actions.declare_file(ctx.label.name + ".runtime.json")
    args = delegatec_arguments(ctx, "operators")
    args.add_all(manifests, format_each = "--manifest=%s")
    args.add(selected, format = "--yaml=%s")
    args.add(runtime, format = "--json=%s")
    delegatec_action(
        ctx,
        args = args,
        inputs = manifests,
        mnemonic = "DelegateOperators",
        outputs = [selected, runtime],
        progress_message = "Listing the operators of %s" % label_text(ctx.label),
    )
    return depset([selected, runtime])

def _selected_operators_impl(ctx):
    programs = depset(transitive = [target[ProgramsInfo].programs for target in ctx.attr.programs]).to_list()
    if not programs:
        fail_with(
            ctx.label,
            "DC512",
            "there is no program among the targets of `programs`, or below them",
            expected = "programs = [\":foo_mps\", \"//app\"]",
        )
    files = list_operators(ctx, depset([program.manifest for program in programs]))
    return [DefaultInfo(
        files = files,
        runfiles = ctx.runfiles(transitive_files = files),
    )]

selected_operators = rule(
    implementation = _selected_operators_impl,
    doc = """\
Lists what an app links for the programs below some targets.

`NAME.selected_operators.yaml` has the operators that they call outside of delegates, with dtypes and dim orders, for
ExecuTorch's selective build; `NAME.runtime.json` the backends and the kernels, each with the programs that need it.
""",
    attrs = dict(ACTION_ATTRS, **{
        "programs": attr.label_list(
            mandatory = True,
            aspects = [programs_aspect],
            doc = "Programs, and targets that depend on programs: tests, file groups, applications, bundles.",
        ),
    }),
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
