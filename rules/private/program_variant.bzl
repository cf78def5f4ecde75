# SPDX-License-Identifier: Apache-2.0
"""`program_variant`: one variant of a program, as a program for tests, budgets and bills of materials."""

load("//rules:providers.bzl", "DelegateProgramInfo", "ProgramVariantsInfo")
load(":options.bzl", "did_you_mean", "fail_with")
load(":program_outputs.bzl", "program_outputs")

def _program_variant_impl(ctx):
    variants = ctx.attr.variants[ProgramVariantsInfo]
    known = variants.variants.keys()
    if ctx.attr.variant not in known:
        fail_with(
            ctx.label,
            "DC418",
            "there is no variant \"%s\"" % ctx.attr.variant,
            expected = " or ".join(["\"%s\"" % each for each in known]),
            help = did_you_mean(ctx.attr.variant, known),
        )
    built = variants.infos[ctx.attr.variant]
    names = [info.program.basename[:-len(".pte")] for info in built]
    name = ctx.attr.program_name or (names[0] if len(names) == 1 else "")
    if name not in names:
        fail_with(
            ctx.label,
            "DC418",
            "variant \"%s\" has no program \"%s\"" % (ctx.attr.variant, name) if name else "variant \"%s\" has %d programs" % (ctx.attr.variant, len(names)),
            expected = "program_name = " + " or ".join(["\"%s\"" % each for each in names]),
            help = did_you_mean(name, names) if name else "",
        )
    position = names.index(name)

    # The links, since the files themselves have one path in the runfiles of all variants.
    info = built[position]
    fields = {field: getattr(info, field) for field in dir(info) if field not in _METHODS}
    linked = variants.variants[ctx.attr.variant][position]
    fields.update({field: getattr(linked, field) for field in ["manifest", "program", "report", "weights"]})
    return program_outputs(ctx, DelegateProgramInfo(**fields))

# Of every provider.
_METHODS = ["to_json", "to_proto"]

program_variant = rule(
    implementation = _program_variant_impl,
    doc = """\
Provides one variant of a program as a program: for a `program_test`, a `program_budget_test`, a `program_golden_test`, a
`program_diff` of two variants, or a bill of materials.
""",
    attrs = {
        "program_name": attr.string(
            doc = "The name of the program's target, if there are several `programs`.",
        ),
        "variant": attr.string(
            mandatory = True,
            doc = "The name of the variant.",
        ),
        "variants": attr.label(
            mandatory = True,
            doc = "A target of a rule of `program_variants_rule`.",
            providers = [ProgramVariantsInfo],
        ),
    },
    provides = [DelegateProgramInfo],
)
