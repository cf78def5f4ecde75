# SPDX-License-Identifier: Apache-2.0
"""`program_variants_rule`: a rule that builds programs once for each of several values of build settings."""

load("//rules:providers.bzl", "DelegateProgramInfo", "ProgramVariantsInfo")
load(":labels.bzl", "label_text")
load(":options.bzl", "did_you_mean", "fail_with")

def _name_of(setting):
    return setting.rpartition(":")[2]

def _converted(text, current):
    """Returns a value of the current one's type; the text itself if it is none, so that Bazel rejects it."""
    if type(current) == "bool" and text in ("true", "false"):
        return text == "true"
    if type(current) == "int" and (text[1:] if text.startswith("-") else text).isdigit():
        return int(text)
    if type(current) in ("list", "List"):  # Bazel 4.2.3 passes a list of Java.
        return text.split(",") if text else []
    return text

def _with_values(settings, assignments):
    """Returns all settings, with the values of one variant; the rule rejects assignments that name none."""
    parts = [each.partition("=") for each in assignments]
    values = {name: value for name, separator, value in parts if separator}
    return {
        setting: _converted(values[_name_of(setting)], current) if _name_of(setting) in values else current
        for setting, current in settings.items()
    }

def _variants_transition_impl(settings, attr):
    """Returns a configuration for each group of variants with equal values: Bazel keeps one of equal configurations."""
    configurations = {}
    groups = {}
    for variant, assignments in attr.variants.items():
        configuration = _with_values(settings, assignments)

        # As text, since Bazel 4.2.3 passes lists that are not equal to those of Starlark.
        text = str(configuration)
        configurations[text] = configuration
        groups.setdefault(text, []).append(variant)

    # Without a configuration, Bazel would blame the transition, and not name the target.
    return {_SEPARATOR.join(variants): configurations[text] for text, variants in groups.items()} or {"": settings}

# Of the names of variants, which may not contain it.
_SEPARATOR = ","

def _targets_of_variants(ctx):
    """Returns a dict of variant to the programs in its configuration."""
    return {
        variant: targets
        for group, targets in ctx.split_attr.programs.items()
        # Bazel 4.2.3 does not name a single configuration that is the target's own.
        for variant in (group.split(_SEPARATOR) if group else ctx.attr.variants)
    }

def _values_of(ctx, variant):
    """Returns the values that a variant sets: a dict of setting to text. Fails if it cannot set one."""
    known = {_name_of(setting): setting for setting in ctx.attr._settings}
    values = {}
    for assignment in ctx.attr.variants[variant]:
        name, separator, value = assignment.partition("=")
        if name not in known or not separator:
            fail_with(
                ctx.label,
                "DC418",
                "variant \"%s\" sets \"%s\"" % (variant, assignment),
                expected = " or ".join(["\"%s=VALUE\"" % each for each in sorted(known)]),
                help = did_you_mean(name, known.keys()),
            )
        if known[name] in values:
            fail_with(
                ctx.label,
                "DC418",
                "variant \"%s\" sets \"%s\" twice" % (variant, name),
                expected = "each setting at most once",
            )
        values[known[name]] = value
    return values

def _check_name(ctx, variant):
    letters = [variant[i] for i in range(len(variant))]
    if not variant[:1].isalnum() or [each for each in letters if not each.isalnum() and each not in "._+-"]:
        fail_with(
            ctx.label,
            "DC418",
            "a variant is named \"%s\", which is not the name of a directory" % variant,
            expected = "a letter or digit, and then letters, digits and . _ + -",
        )

def _linked(ctx, files, variant, file):
    """Returns a link to a file of one variant, in the directory of the variant.

    Args:
        ctx: the context of the rule.
        files: dict of path to (file, link), to be completed: programs may share a file of weights.
        variant: the variant's name.
        file: the file.

    Returns:
        The link.
    """
    path = "%s/%s/%s" % (ctx.label.name, variant, file.basename)
    if path not in files:
        link = ctx.actions.declare_file(path)
        ctx.actions.symlink(output = link, target_file = file)
        files[path] = (file, link)
    if files[path][0] != file:
        fail_with(
            ctx.label,
            "DC418",
            "two files of variant \"%s\" are named \"%s\"" % (variant, file.basename),
            expected = "programs with distinct names",
            help = "declare one target of this rule for each of them",
        )
    return files[path][1]

def _program_variants_impl(ctx):
    if not ctx.attr.variants:
        fail_with(
            ctx.label,
            "DC418",
            "variants is empty",
            expected = "a dict of a variant's name to what it sets, such as {\"half\": [\"precision=fp16\"]}",
        )
    for variant in ctx.attr.variants:
        _check_name(ctx, variant)
    built = _targets_of_variants(ctx)
    variants = {}
    listed = []
    for variant in ctx.attr.variants:
        values = _values_of(ctx, variant)
        files = {}
        programs = []
        entries = []
        for target in built[variant]:
            info = target[DelegateProgramInfo]
            program = struct(
                manifest = _linked(ctx, files, variant, info.manifest),
                program = _linked(ctx, files, variant, info.program),
                report = _linked(ctx, files, variant, info.report),
                weights = _linked(ctx, files, variant, info.weights) if info.weights else None,
            )
            programs.append(program)
            entries.append(struct(
                file = "%s/%s" % (variant, program.program.basename),
                label = label_text(target.label),
                weights = "%s/%s" % (variant, program.weights.basename) if program.weights else None,
            ))
        variants[variant] = programs
        listed.append(struct(name = variant, programs = entries, settings = values))
    index = ctx.actions.declare_file(ctx.label.name + "/index.json")
    ctx.actions.write(index, json.encode_indent({"variants": listed}) + "\n")
    shipped = [index]
    for programs in variants.values():
        for program in programs:
            shipped += [program.program] + ([program.weights] if program.weights else [])
    return [
        DefaultInfo(
            files = depset(shipped),
            runfiles = ctx.runfiles(shipped),
        ),
        OutputGroupInfo(
            manifest = depset([program.manifest for programs in variants.values() for program in programs]),
            report = depset([program.report for programs in variants.values() for program in programs]),
        ),
        ProgramVariantsInfo(
            infos = {
                variant: [target[DelegateProgramInfo] for target in built[variant]]
                for variant in variants
            },
            variants = variants,
        ),
    ]

def program_variants_rule(settings):
    """Returns a rule that builds programs under several values of your build settings, each in a separate directory.

    Call it in a `.bzl` file of yours, at the top level: Bazel must know the settings before it reads a target. The rule has
    the attributes `programs`, a list of programs, and `variants`, a dict of a variant's name to what it sets, as in
    `{"half": ["precision=fp16"]}`; a setting that a variant does not name keeps its value. `NAME/VARIANT/FOO.pte` is the
    program `FOO` of a variant, next to its weights, and `NAME/index.json` lists variants, values and files. The output groups
    `manifest` and `report` describe the programs.

    Args:
        settings: list of the labels of the settings that variants may set, as `Label("//settings:precision")`: flags of strings,
            booleans, integers or lists of strings.

    Returns:
        The rule. Its targets may be listed in a `program_bundle` and a `program_index`.
    """
    names = {}
    for setting in settings:
        if type(setting) != "Label":
            fail("error DC418: the setting \"%s\" is not a Label\n  expected: Label(\"//settings:precision\")" % setting)
        if setting.name in names:
            fail("error DC418: two settings are named \"%s\"\n  expected: settings with distinct names" % setting.name)
        names[setting.name] = setting
    flags = [str(setting) for setting in settings]
    return rule(
        implementation = _program_variants_impl,
        doc = "Builds programs once for each variant, under the settings of the variant.",
        attrs = {
            "programs": attr.label_list(
                mandatory = True,
                allow_empty = False,
                cfg = transition(
                    implementation = _variants_transition_impl,
                    inputs = flags,
                    outputs = flags,
                ),
                doc = "The programs.",
                providers = [DelegateProgramInfo],
            ),
            "variants": attr.string_list_dict(
                mandatory = True,
                doc = "Name of a variant -> what it sets, as `[\"SETTING=VALUE\"]`.",
            ),
            "_allowlist_function_transition": attr.label(
                default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
            ),
            "_settings": attr.string_list(default = [label_text(setting) for setting in settings]),
        },
        provides = [ProgramVariantsInfo],
    )
