# SPDX-License-Identifier: Apache-2.0
"""`program_index`: one page over all programs that targets are made of."""

load("//rules:providers.bzl", "DelegateProgramInfo", "ProgramVariantsInfo")
load(":delegatec_action.bzl", "ACTION_ATTRS", "delegatec_action", "delegatec_arguments")
load(":labels.bzl", "label_text")
load(":options.bzl", "fail_with")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

# Attributes through which a target depends on what it ships.
PROGRAM_ATTRIBUTES = ["actual", "base", "data", "deps", "program", "programs", "srcs", "tests"]

ProgramsInfo = provider(
    doc = "The programs that a target is made of.",
    fields = {
        "license_files": "depset of File: texts of the licenses of their models, and notices.",
        "programs": "depset of struct(manifest, program, report, weights): Files of DelegateProgramInfo.",
    },
)

def _programs_aspect_impl(target, ctx):
    if ProgramVariantsInfo in target:
        # The programs below have the same path in every configuration.
        variants = target[ProgramVariantsInfo]
        return [ProgramsInfo(
            license_files = depset(transitive = [
                info.exported.license_files
                for infos in variants.infos.values()
                for info in infos
            ]),
            programs = depset([program for programs in variants.variants.values() for program in programs]),
        )]
    own = []
    licenses = []
    if DelegateProgramInfo in target:
        info = target[DelegateProgramInfo]
        licenses.append(info.exported.license_files)
        own.append(struct(
            manifest = info.manifest,
            program = info.program,
            report = info.report,
            weights = info.weights,
        ))
    below = []
    for name in PROGRAM_ATTRIBUTES:
        value = getattr(ctx.rule.attr, name, None)
        for each in value if type(value) == "list" else [value]:
            if type(each) == "Target" and ProgramsInfo in each:
                below.append(each[ProgramsInfo].programs)
                licenses.append(each[ProgramsInfo].license_files)
    return [ProgramsInfo(
        license_files = depset(transitive = licenses),
        programs = depset(own, transitive = below),
    )]

programs_aspect = aspect(
    implementation = _programs_aspect_impl,
    attr_aspects = PROGRAM_ATTRIBUTES,
    doc = "Collects the programs below a target, and the texts of their licenses: of tests, file groups, applications and other indexes.",
)

def _with_report(program):
    return ["--manifest=" + program.manifest.path, "--report=" + program.report.path]

def _without_report(program):
    return "--manifest=" + program.manifest.path

def _program_index_impl(ctx):
    programs = depset(transitive = [target[ProgramsInfo].programs for target in ctx.attr.programs])
    listed = programs.to_list()
    if not listed:
        fail_with(
            ctx.label,
            "DC512",
            "there is no program among the targets of the index, or below them",
            expected = "programs = [\":foo_mps\", \"//models:index\"], or an index after the programs of its package",
        )
    page = ctx.actions.declare_file(ctx.label.name + ".html")
    document = ctx.actions.declare_file(ctx.label.name + ".json")
    args = delegatec_arguments(ctx, "index")
    args.add_all(programs, map_each = _with_report if ctx.attr.reports else _without_report)
    args.add(page, format = "--page=%s")
    args.add(document, format = "--json=%s")
    delegatec_action(
        ctx,
        args = args,
        inputs = depset([program.manifest for program in listed]),
        mnemonic = "DelegateIndex",
        outputs = [page, document],
        progress_message = "Indexing %d programs of %s" % (len(listed), label_text(ctx.label)),
    )
    reports = depset([program.report for program in listed] if ctx.attr.reports else [])
    return [
        DefaultInfo(
            files = depset([page, document], transitive = [reports]),
            runfiles = ctx.runfiles([page, document], transitive_files = reports),
        ),
        OutputGroupInfo(page = depset([page]), reports = reports),
    ]

program_index = rule(
    implementation = _program_index_impl,
    doc = """\
Writes `NAME.html`, one page without network access, and `NAME.json` over all programs below some targets: sizes, weights,
delegation, planned memory and estimates, with links to the programs' reports, which are built as well.
""",
    attrs = dict(ACTION_ATTRS, **{
        "programs": attr.label_list(
            mandatory = True,
            aspects = [programs_aspect],
            doc = "Programs, and targets that depend on programs: tests, file groups, applications, other indexes.",
        ),
        "reports": attr.bool(
            default = True,
            doc = "Whether to build the report of each program and link to it.",
        ),
    }),
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)

def declare_index(name, programs = None, **kwargs):
    """Writes one page over many programs.

    Args:
        name: the target's name; the page is `NAME.html`, and `NAME.json` the same for tools.
        programs: programs, and targets that depend on some; by default all programs that the package declared before.
        **kwargs: `reports`, and the attributes of every rule.
    """
    if programs == None:
        programs = [
            ":" + other
            for other, attributes in native.existing_rules().items()
            if attributes["kind"].endswith("_program") and attributes["kind"] not in _NOT_LOWERED
        ]
    program_index(name = name, programs = programs, **kwargs)

_NOT_LOWERED = ["exported_program", "quantized_program"]
