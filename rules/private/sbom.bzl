# SPDX-License-Identifier: Apache-2.0
"""Bills of materials of programs, in CycloneDX's format: an aspect, and a rule that applies it."""

load("//rules:providers.bzl", "DelegateProgramInfo", "ExportedProgramInfo", "ProgramVariantsInfo")
load(":delegatec_toolchain.bzl", "FIXED_ENVIRONMENT", "INTERPRETER_FLAGS")
load(":labels.bzl", "label_text")
load(":options.bzl", "fail_with")
load(":program_index.bzl", "PROGRAM_ATTRIBUTES")
load(":python_paths.bzl", "merged_python", "python_info")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

SbomInfo = provider(
    doc = "What a program or an exported model consists of.",
    fields = {
        "data": "depset of File: checkpoints, calibration data, and configuration files.",
        "document": "File: the bill of materials of a program, as CycloneDX JSON; None for an exported model.",
        "declared_licenses": "depset of struct(license, model): the license that a model declares, and its `.pt2`.",
        "models": "depset of File: the exported models, as `.pt2`.",
        "programs": "depset of struct(data, declared_licenses, document, models, program, python): these fields for each program, a File.",
        "python": "depset of File: sources, and directories of wheels.",
    },
)

# Attributes through which a target depends on programs.
_FOLLOWED = PROGRAM_ATTRIBUTES + ["variants"]

# Attributes of the rules: files that are sources, files that are data, and Python targets.
_SOURCES = ["srcs"]
_DATA = ["calibration", "config", "data"]
_PYTHON = ["_tools", "_torchao", "deps", "tools"]

def _attribute(ctx, name):
    value = getattr(ctx.rule.attr, name, None) or []
    return value if type(value) == "list" else [value]

def _named(flag, file):
    return "--%s=%s=%s" % (flag, file.short_path.replace("../", "external/", 1), file.path)

def _data_argument(file):
    return _named("data", file)

def _model_argument(file):
    return _named("model", file)

def _license_argument(declared):
    return _named("license", declared.model).rpartition("=")[0] + "=" + declared.license

def _source_argument(file):
    """A file of a model or a plug-in, or None for a file of a wheel."""
    return None if "site-packages" in file.path else _named("source", file)

def _site_argument(file):
    """A directory of wheels: it is an input, or the parent of one, as in the targets of rules_python."""
    if file.basename == "site-packages":
        return "--site=" + file.path
    if file.path.endswith(".dist-info/METADATA"):
        return "--site=" + file.path.rpartition("/")[0].rpartition("/")[0]
    return None

def _write_document(ctx, program, parts):
    """Declares the action that writes the bill of materials.

    Args:
        ctx: the context of the aspect.
        program: DelegateProgramInfo.
        parts: a struct with the fields of SbomInfo.

    Returns:
        The document.
    """
    compiler = ctx.toolchains[DELEGATEC_TOOLCHAIN_TYPE].delegatec
    document = ctx.actions.declare_file(ctx.label.name + ".cdx.json")
    locks = ctx.file._locks.dirname.rpartition("/")[0]  # the directory of the package
    startup = ctx.actions.args()
    startup.add_all(INTERPRETER_FLAGS)
    startup.add(ctx.file._script)
    args = ctx.actions.args()
    args.set_param_file_format("multiline")
    args.use_param_file("@%s", use_always = True)
    args.add(label_text(ctx.label), format = "--label=%s")
    args.add(program.manifest, format = "--manifest=%s")
    args.add(document, format = "--output=%s")
    args.add_all([program.program], map_each = _program_argument)
    args.add_all(parts.data, map_each = _data_argument)
    args.add_all(parts.models, map_each = _model_argument)
    args.add_all(parts.declared_licenses, map_each = _license_argument)
    args.add_all(parts.python, map_each = _source_argument)
    args.add_all(depset(transitive = [compiler.inputs, parts.python]), map_each = _site_argument, uniquify = True)
    ctx.actions.run(
        arguments = [startup, args],
        env = dict(FIXED_ENVIRONMENT, PYTHONPATH = ":".join([ctx.file._script.dirname, locks, ctx.file._site.path])),
        executable = compiler.tool,
        inputs = depset(
            [ctx.file._script, ctx.file._locks, ctx.file._modules, ctx.file._site, ctx.file._site_manifest, program.manifest, program.program],
            transitive = [compiler.inputs, parts.data, parts.models, parts.python],
        ),
        mnemonic = "DelegateSbom",
        outputs = [document],
        progress_message = "Listing the parts of %s" % label_text(ctx.label),
    )
    return document

def _program_argument(file):
    return _named("program", file)

def _programs_below(target, ctx):
    """Returns the programs that a target depends on, as `programs` of SbomInfo: those of variants under their links."""
    below = depset(transitive = [
        each[SbomInfo].programs
        for name in _FOLLOWED
        for each in _attribute(ctx, name)
        if type(each) == "Target" and SbomInfo in each
    ])
    if ProgramVariantsInfo not in target:
        return below
    variants = target[ProgramVariantsInfo]
    known = {each.program: each for each in below.to_list()}
    return depset([
        _entry(linked.program, known[info.program].document, known[info.program])
        for variant, infos in variants.infos.items()
        for info, linked in zip(infos, variants.variants[variant])
    ])

def _entry(program, document, parts):
    return struct(data = parts.data, document = document, declared_licenses = parts.declared_licenses, models = parts.models, program = program, python = parts.python)

def _sbom_impl(target, ctx):
    programs = _programs_below(target, ctx)
    if DelegateProgramInfo not in target and ExportedProgramInfo not in target:
        return [SbomInfo(data = depset(), document = None, declared_licenses = depset(), models = depset(), programs = programs, python = depset())]
    below = [each[SbomInfo] for each in _attribute(ctx, "program") if SbomInfo in each]
    if hasattr(ctx.rule.attr, "variants"):
        below = [each for each in programs.to_list() if each.program == target[DelegateProgramInfo].program]
    sources = [file for name in _SOURCES for each in _attribute(ctx, name) for file in each[DefaultInfo].files.to_list()]
    data = [file for name in _DATA for each in _attribute(ctx, name) for file in each[DefaultInfo].files.to_list()]
    python = merged_python(ctx, [each for name in _PYTHON for each in _attribute(ctx, name) if python_info(each)])
    models = [target[ExportedProgramInfo].program] if ExportedProgramInfo in target else []
    licenses = [
        struct(license = target[ExportedProgramInfo].license, model = model)
        for model in models
        if target[ExportedProgramInfo].license
    ]
    parts = struct(
        data = depset(data, transitive = [info.data for info in below]),
        declared_licenses = depset(licenses, transitive = [info.declared_licenses for info in below]),
        models = depset(models, transitive = [info.models for info in below]),
        python = depset(sources, transitive = [python.files] + [info.python for info in below]),
    )
    is_program = DelegateProgramInfo in target
    document = _write_document(ctx, target[DelegateProgramInfo], parts) if is_program else None
    if is_program:
        programs = depset([_entry(target[DelegateProgramInfo].program, document, parts)])
    return [
        SbomInfo(data = parts.data, document = document, declared_licenses = parts.declared_licenses, models = parts.models, programs = programs, python = parts.python),
    ] + ([OutputGroupInfo(sbom = depset([document]))] if is_program else [])

sbom = aspect(
    implementation = _sbom_impl,
    doc = """\
Lists what a program consists of, as `NAME.cdx.json` in the output group `sbom`: the exported model, its sources and
checkpoints with digests, all wheels with versions, licenses and digests, and the compiler.
""",
    attr_aspects = _FOLLOWED,
    attrs = {
        "_locks": attr.label(
            default = "//python/wheel_locks:__init__.py",
            allow_single_file = True,
        ),
        "_modules": attr.label(
            default = "//python/supply:wheels.py",
            allow_single_file = True,
        ),
        "_script": attr.label(
            default = "//python/supply:sbom.py",
            allow_single_file = True,
        ),
        "_site": attr.label(
            default = "@delegatec_pip_sbom//:site-packages",
            allow_single_file = True,
        ),
        "_site_manifest": attr.label(
            default = "@delegatec_pip_sbom//:site-packages.manifest",
            allow_single_file = True,
        ),
    },
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)

def _program_licenses_impl(ctx):
    documents = depset([
        program.document
        for target in ctx.attr.programs
        for program in target[SbomInfo].programs.to_list()
    ])
    if not documents.to_list():
        fail_with(
            ctx.label,
            "DC512",
            "there is no program among the targets of `programs`, or below them",
            expected = "programs = [\":foo_mps\", \"//app\"]",
        )
    compiler = ctx.toolchains[DELEGATEC_TOOLCHAIN_TYPE].delegatec
    outputs = {flag: ctx.actions.declare_file(ctx.label.name + "." + flag) for flag in ["json", "txt"]}
    args = ctx.actions.args()
    args.set_param_file_format("multiline")
    args.use_param_file("@%s", use_always = True)
    args.add_all(documents, format_each = "--document=%s")
    for flag, output in outputs.items():
        args.add(output, format = "--" + flag + "=%s")
    ctx.actions.run(
        arguments = INTERPRETER_FLAGS + [ctx.file._script.path, args],
        env = FIXED_ENVIRONMENT,
        executable = compiler.tool,
        inputs = depset([ctx.file._script], transitive = [compiler.inputs, documents]),
        mnemonic = "DelegateLicenses",
        outputs = outputs.values(),
        progress_message = "Listing the licenses of %s" % label_text(ctx.label),
    )
    return [DefaultInfo(
        files = depset(outputs.values()),
        runfiles = ctx.runfiles(outputs.values()),
    )]

program_licenses = rule(
    implementation = _program_licenses_impl,
    doc = """\
Lists the licenses behind the programs below some targets, as `NAME.txt` for people and `NAME.json` for tools: of the models,
of the wheels that their code, the compiler and its backends come from, and what has none. They are those of the bills of
materials; the list of an app is a file of the `license_files` of its `program_bundle`.
""",
    attrs = {
        "programs": attr.label_list(
            mandatory = True,
            aspects = [sbom],
            doc = "Programs, and targets that depend on programs: tests, file groups, applications, bundles.",
        ),
        "_script": attr.label(
            default = "//python/supply:licenses.py",
            allow_single_file = True,
        ),
    },
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)

def _program_sboms_impl(ctx):
    documents = [program[SbomInfo].document for program in ctx.attr.programs]
    return [DefaultInfo(
        files = depset(documents),
        runfiles = ctx.runfiles(documents),
    )]

program_sboms = rule(
    implementation = _program_sboms_impl,
    doc = "The bills of materials of programs, such as those of a release: `NAME.cdx.json` next to each program.",
    attrs = {
        "programs": attr.label_list(
            mandatory = True,
            allow_empty = False,
            aspects = [sbom],
            doc = "The programs.",
            providers = [DelegateProgramInfo],
        ),
    },
)
