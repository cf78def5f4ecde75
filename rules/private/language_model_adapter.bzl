# SPDX-License-Identifier: Apache-2.0
"""`language_model_adapter`: an adapter's folder to a data file that programs of its language model load."""

load("//rules:providers.bzl", "ExportedProgramInfo", "LanguageModelAdapterInfo", "LanguageModelInfo")
load(":delegatec_action.bzl", "ACTION_ATTRS", "delegatec_action", "delegatec_arguments")
load(":labels.bzl", "label_text")
load(":layout_options.bzl", "alignment_problems")
load(":options.bzl", "fail_with_all", "problem")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

_CONFIG = "adapter_config.json"

def _problems(ctx):
    problems = alignment_problems("weights_alignment", ctx.attr.weights_alignment)
    names = [file.basename for file in ctx.files.checkpoint]
    if _CONFIG not in names:
        problems.append(problem(
            "DC115",
            "checkpoint has no %s: %s" % (_CONFIG, ", ".join(names[:8])),
            expected = "%s and adapter_model.safetensors of the published folder" % _CONFIG,
            help = "list all files of the folder, such as glob([\"pirate/*\"])",
        ))
    if not ctx.attr.model[LanguageModelInfo].has_adapters:
        problems.append(problem(
            "DC117",
            "model %s has no adapters" % label_text(ctx.attr.model.label),
            expected = "a `language_model` with adapter_rank and adapter_modules",
        ))
    return problems

def _language_model_adapter_impl(ctx):
    fail_with_all(ctx.label, _problems(ctx))
    exported = ctx.attr.model[ExportedProgramInfo]
    weights = ctx.actions.declare_file(ctx.label.name + ".ptd")
    files = [
        file
        for file in ctx.files.checkpoint
        if file.basename == _CONFIG or file.extension == "safetensors"
    ]
    args = delegatec_arguments(ctx, "adapter")
    args.add_all(files, format_each = "--checkpoint=%s")
    args.add(exported.weights, format = "--base=%s")
    args.add(weights, format = "--ptd=%s")
    args.add(ctx.attr.weights_alignment, format = "--segment-alignment=%s")
    delegatec_action(
        ctx,
        args = args,
        inputs = depset(files + [exported.weights]),
        mnemonic = "DelegateAdapter",
        outputs = [weights],
        progress_message = "Writing the adapter %s" % label_text(ctx.label),
    )
    return [
        DefaultInfo(files = depset([weights]), runfiles = ctx.runfiles([weights])),
        LanguageModelAdapterInfo(
            checkpoint = depset(ctx.files.checkpoint),
            model = exported.label,
            weights = weights,
        ),
    ]

language_model_adapter = rule(
    implementation = _language_model_adapter_impl,
    doc = """\
Writes the weights of an adapter (LoRA) as `NAME.ptd`, from its folder as PEFT publishes it.

An app loads it next to any program of `model`, in place of the model's own `.ptd`, which has zeros: the program then
computes what the model does with the adapter. The lowered programs do not depend on it.
""",
    attrs = dict(ACTION_ATTRS, **{
        "checkpoint": attr.label_list(
            mandatory = True,
            allow_empty = False,
            allow_files = True,
            doc = "The files of the published folder: `adapter_config.json` and `adapter_model.safetensors`.",
        ),
        "model": attr.label(
            mandatory = True,
            doc = "A `language_model` with `adapter_rank` of at least the adapter's rank, and with all layers that the adapter " +
                  "changes among its `adapter_modules`.",
            providers = [ExportedProgramInfo, LanguageModelInfo],
        ),
        "weights_alignment": attr.int(
            default = 128,
            doc = "Alignment of each tensor in the `.ptd`, in bytes: a power of two.",
        ),
    }),
    provides = [LanguageModelAdapterInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
