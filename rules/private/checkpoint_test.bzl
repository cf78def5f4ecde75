# SPDX-License-Identifier: Apache-2.0
"""What the tests have in common that compare a program with the model in float of its checkpoint."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":labels.bzl", "label_text")
load(":launched_test.bzl", "launched_test")
load(":launcher.bzl", "quoted", "runfiles_path")
load(":options.bzl", "fail_with", "problem")
load(":program_runtime.bzl", "ProgramRuntimeInfo")
load(":python_paths.bzl", "PYTHON_PROVIDERS", "merged_python")
load(":tolerances.bzl", "is_number")

def _is_positive(text):
    return is_number(text) and bool(text.lower().partition("e")[0].replace(".", "").strip(" 0"))

def comparison_problems(ctx, limits):
    """Returns the problems of `tokens` and of limits.

    Args:
        ctx: the context of a test with `COMPARISON_ATTRS`.
        limits: names of the attributes that are limits.

    Returns:
        A list of problems.
    """
    problems = []
    if ctx.attr.tokens < 1:
        problems.append(problem(
            "DC514",
            "tokens cannot be %d" % ctx.attr.tokens,
            expected = "1 or more",
        ))
    for name in limits:
        value = getattr(ctx.attr, name)
        if value and not _is_positive(value):
            problems.append(problem(
                "DC514",
                "%s = \"%s\" is not a limit" % (name, value),
                expected = "a positive number, such as \"0.05\"",
            ))
    return problems

def compared_model(ctx, kinds):
    """Returns the model of the program; fails if it is not of one of some rules.

    Args:
        ctx: the context of a test with `COMPARISON_ATTRS`.
        kinds: names of the rules.

    Returns:
        LanguageModelInfo.
    """
    model = ctx.attr.program[DelegateProgramInfo].exported.language_model
    if not model or model.kind not in kinds:
        fail_with(
            ctx.label,
            "DC507",
            "program %s is not lowered from a %s" % (label_text(ctx.attr.program.label), kinds[0]),
            expected = "a program of a %s, such as \":NAME_xnnpack\"" % " or a ".join(["`%s`" % kind for kind in kinds]),
            help = "write a program_test for other programs",
        )
    return model

def comparison_test(ctx, verb, limits, arguments, files, weights = None):
    """Declares what a test runs.

    Args:
        ctx: the context of a test with `COMPARISON_ATTRS`.
        verb: the compiler's verb.
        limits: names of the attributes that are limits.
        arguments: list of string: the verb's arguments besides those of every such test.
        files: list of File that these name.
        weights: File of the program's external weights, if not its own.

    Returns:
        A list of providers.
    """
    info = ctx.attr.program[DelegateProgramInfo]
    checkpoint = info.exported.language_model.checkpoint.to_list()
    program = info.host_program or info.program
    common = [
        quoted("--label=" + label_text(ctx.label)),
        "--pte=" + runfiles_path(ctx, program),
        "--tokens=%d" % ctx.attr.tokens,
    ]
    common += ["--checkpoint=" + runfiles_path(ctx, file) for file in checkpoint]
    common += [
        quoted("--%s=%s" % (name.replace("_", "-"), getattr(ctx.attr, name)))
        for name in limits
        if getattr(ctx.attr, name)
    ]
    return launched_test(
        ctx,
        info,
        arguments = common + arguments,
        files = [program] + checkpoint + files,
        python = merged_python(ctx, [ctx.attr._transformers]),
        verb = verb,
        weights = weights,
    )

# Attributes of every test that compares a program with the model in float of its checkpoint.
COMPARISON_ATTRS = {
    "maximum_divergence": attr.string(
        doc = "Largest mean Kullback-Leibler divergence of the predictions from those of the model in float, in nats, for " +
              "programs with quantized or float16 weights, such as `0.05`.",
    ),
    "program": attr.label(
        mandatory = True,
        doc = "The lowered program.",
        providers = [DelegateProgramInfo],
    ),
    "runtime": attr.label(
        doc = "A `program_runtime`, such as ExecuTorch's own runtime.",
        providers = [ProgramRuntimeInfo],
    ),
    "tokens": attr.int(
        default = 16,
        doc = "The most tokens of each text.",
    ),
    "_transformers": attr.label(
        default = Label("@delegatec_pip_models//:lib"),
        providers = PYTHON_PROVIDERS,
    ),
}
