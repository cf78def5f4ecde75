# SPDX-License-Identifier: Apache-2.0
"""Programs under several settings: their files, their index, and how a bundle finds them."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("@bazel_skylib//rules:common_settings.bzl", "bool_flag", "int_flag", "string_flag", "string_list_flag")
load("//rules:defs.bzl", "DelegateProgramInfo", "ProgramVariantsInfo", "portable_program", "program_bundle", "program_test", "program_variant")
load("//rules:sbom.bzl", "SbomInfo", "sbom")
load(":actions.bzl", "action_of", "flags_of")
load(":variants_rule.bzl", "TYPES", "program_variants")

_FOLDER = "tests/rules/variants/"

def _variants_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    programs = ["mlp_by_%s.pte" % each for each in TYPES]
    asserts.equals(
        env,
        sorted([_FOLDER + variant + "/" + file for variant in ["set", "unset"] for file in programs] +
               [_FOLDER + "index.json", _FOLDER + "set/mlp.ptd"]),
        sorted([file.short_path for file in target[DefaultInfo].files.to_list()]),
    )
    variants = target[ProgramVariantsInfo].variants
    asserts.equals(env, ["set", "unset"], variants.keys())
    asserts.equals(
        env,
        ["%sset/mlp_by_%s.manifest.json" % (_FOLDER, each) for each in TYPES],
        [program.manifest.short_path for program in variants["set"]],
    )

    # Each program has external weights if its own setting has its value: in one variant, all of them.
    asserts.equals(env, {
        "variants": [
            {
                "name": variant,
                "programs": [
                    {
                        "file": "%s/mlp_by_%s.pte" % (variant, each),
                        "label": "//tests/rules:mlp_by_" + each,
                        "weights": weights,
                    }
                    for each in TYPES
                ],
                "settings": values,
            }
            for variant, weights, values in [
                ("set", "set/mlp.ptd", {"//tests/rules:variant_" + each: _VALUES[each] for each in TYPES}),
                ("unset", None, {}),
            ]
        ],
    }, json.decode(action_of(env, "FileWrite").content))
    return analysistest.end(env)

_variants_test = analysistest.make(_variants_test_impl)

def _equal_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    variants = target[ProgramVariantsInfo].variants
    asserts.equals(env, {
        variant: ["tests/rules/%s/%s/mlp_by_bool.pte" % (target.label.name, variant)]
        for variant in _EQUAL[target.label.name]
    }, {
        variant: [program.program.short_path for program in programs]
        for variant, programs in variants.items()
    })
    asserts.equals(
        env,
        [variant for variant in ["one", "other"] if variant in variants],
        sorted([variant for variant, programs in variants.items() if programs[0].weights]),
    )
    return analysistest.end(env)

_equal_test = analysistest.make(_equal_test_impl)

# Target -> its variants, some with the same values: Bazel builds these once. Two have external weights.
_EQUAL = {
    "equal_variants": {
        "one": ["variant_bool=true"],
        "other": ["variant_bool=true", "variant_int=0"],
        "default": [],
        "default_list": ["variant_list="],
    },
    "variants_of_the_command_line": {
        "default": [],
        "default_list": ["variant_list="],
    },
}

def _bundle_test_impl(ctx):
    env = analysistest.begin(ctx)
    bundle = [action for action in analysistest.target_actions(env) if action.mnemonic == "DelegateBundle"][0]
    asserts.equals(
        env,
        [_FOLDER + "%s/mlp_by_%s.pte" % (variant, each) for variant in ["set", "unset"] for each in TYPES],
        flags_of(bundle)["name"],
    )
    return analysistest.end(env)

_bundle_test = analysistest.make(_bundle_test_impl)

_DocumentInfo = provider(
    doc = "What the aspect provides.",
    fields = {"sbom": "SbomInfo"},
)

def _document_impl(ctx):
    return [_DocumentInfo(sbom = ctx.attr.program[SbomInfo])]

_document = rule(
    implementation = _document_impl,
    attrs = {"program": attr.label(aspects = [sbom])},
)

def _sbom_test_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[_DocumentInfo].sbom
    asserts.equals(env, ctx.attr.document, info.document.short_path if info.document else "")
    asserts.equals(env, ctx.attr.programs, sorted([program.program.short_path for program in info.programs.to_list()]))
    for program in info.programs.to_list():
        asserts.equals(env, ["mlp.pt2"], [file.basename for file in program.models.to_list()])
    return analysistest.end(env)

_sbom_test = analysistest.make(
    _sbom_test_impl,
    attrs = {
        "document": attr.string(),
        "programs": attr.string_list(),
    },
)

def _variant_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    folder = "tests/rules/equal_variants/%s/mlp_by_bool" % ctx.attr.variant
    shipped = [folder + ".pte"] + (["tests/rules/equal_variants/%s/mlp.ptd" % ctx.attr.variant] if ctx.attr.has_weights else [])
    asserts.equals(env, sorted(shipped), sorted([file.short_path for file in target[DefaultInfo].files.to_list()]))
    asserts.equals(env, [folder + ".manifest.json"], [file.short_path for file in target[OutputGroupInfo].manifest.to_list()])
    asserts.equals(env, "mlp_by_bool.debug.json", target[DelegateProgramInfo].debug.basename)
    return analysistest.end(env)

_variant_test = analysistest.make(
    _variant_test_impl,
    attrs = {
        "has_weights": attr.bool(),
        "variant": attr.string(),
    },
)

# Type of a setting -> the value that selects external weights.
_VALUES = {
    "bool": "true",
    "int": "-3",
    "list": "a,b",
    "string": "yes",
}

def variants_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    bool_flag(name = "variant_bool", build_setting_default = False)
    int_flag(name = "variant_int", build_setting_default = 0)
    string_flag(name = "variant_string", build_setting_default = "")
    string_list_flag(name = "variant_list", build_setting_default = [])
    for each, value in _VALUES.items():
        native.config_setting(
            name = "variant_%s_is_set" % each,
            flag_values = {":variant_" + each: value.split(",")[-1]},  # Of a list, one of its elements.
        )
        portable_program(
            name = "mlp_by_" + each,
            external_weights = select({
                ":variant_%s_is_set" % each: True,
                "//conditions:default": False,
            }),
            program = "//tests/rules/models:mlp",
            tags = ["manual"],
        )
    program_variants(
        name = "variants",
        programs = [":mlp_by_" + each for each in TYPES],
        tags = ["manual"],
        variants = {
            "set": ["variant_%s=%s" % (each, _VALUES[each]) for each in TYPES],
            "unset": [],
        },
    )
    program_bundle(
        name = "variants_bundle",
        programs = [":variants"],
        tags = ["manual"],
    )
    for target, variants in _EQUAL.items():
        program_variants(
            name = target,
            programs = [":mlp_by_bool"],
            tags = ["manual"],
            variants = variants,
        )
        _equal_test(
            name = "%s_%s" % (name, target),
            size = "small",
            target_under_test = ":" + target,
        )
    for variant in ["default", "one"]:
        program_variant(
            name = "mlp_variant_" + variant,
            tags = ["manual"],
            variant = variant,
            variants = ":equal_variants",
        )
        _variant_test(
            name = "%s_variant_%s" % (name, variant),
            size = "small",
            has_weights = variant == "one",
            target_under_test = ":mlp_variant_" + variant,
            variant = variant,
        )

    # A test of one variant is a test like any other.
    program_test(
        name = name + "_program",
        size = "small",
        program = ":mlp_variant_one",
    )
    documents = {
        "variant": (":mlp_variant_one", "tests/rules/mlp_variant_one.cdx.json", ["equal_variants/one"]),
        "variants": (":equal_variants", "", ["equal_variants/" + each for each in sorted(_EQUAL["equal_variants"])]),
    }
    for each, (target, document, folders) in documents.items():
        _document(name = "document_of_" + each, program = target, tags = ["manual"])
        _sbom_test(
            name = "%s_sbom_%s" % (name, each),
            size = "small",
            document = document,
            programs = ["tests/rules/%s/mlp_by_bool.pte" % folder for folder in folders],
            target_under_test = ":document_of_" + each,
        )
    _variants_test(
        name = name + "_files",
        size = "small",
        target_under_test = ":variants",
    )
    _bundle_test(
        name = name + "_bundle",
        size = "small",
        target_under_test = ":variants_bundle",
    )
    native.test_suite(
        name = name,
        tests = ["%s_%s" % (name, each) for each in ["bundle", "files", "program", "sbom_variant", "sbom_variants", "variant_default", "variant_one"] + _EQUAL.keys()],
    )
