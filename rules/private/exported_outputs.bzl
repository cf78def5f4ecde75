# SPDX-License-Identifier: Apache-2.0
"""Outputs and checks that the rules that write a `.pt2` have in common."""

load("//rules:providers.bzl", "ExportedProgramInfo")
load(":app_kernels.bzl", "NO_KERNELS", "module_flags")
load(":delegatec_action.bzl", "delegatec_action", "delegatec_arguments")
load(":labels.bzl", "label_text")
load(":layout_options.bzl", "alignment_problems")
load(":options.bzl", "fail_with", "fail_with_all")
load(":python_paths.bzl", "import_roots")

def check_entry(ctx, attribute, entry):
    """Fails unless an entry is `module:function` and the module is one of `srcs`.

    Args:
        ctx: the context of a rule with `srcs`.
        attribute: the name of the attribute, for the message.
        entry: its value.
    """
    module, separator, function = entry.partition(":")
    modules = [source.basename[:-len(".py")] for source in ctx.files.srcs]
    if separator and function and module in modules:
        return
    example = modules[0] if modules else "calibration"
    fail_with(
        ctx.label,
        "DC101",
        "%s \"%s\" does not name a function in `srcs`" % (attribute, entry),
        expected = "module:function, with module one of: %s" % (", ".join(modules) or "none, since `srcs` is empty"),
        help = "write the module without directory and without .py, such as %s = \"%s:build\"" % (attribute, example),
    )

def exported_outputs(ctx, program, signature, sources, samples, license, license_files, quantized = False, minimum_snr_db = 0, language_model = None, kernels = NO_KERNELS):
    """Declares the action that writes the weights, on demand, and returns the rule's providers.

    Args:
        ctx: the context of a rule with `weights_alignment`.
        program: File, the `.pt2`.
        signature: File, its signature.
        sources: File, the lines of its nodes.
        samples: File, what the model returned, or None.
        license: string, as in ExportedProgramInfo.
        license_files: depset of File, as there.
        quantized: bool, as there.
        minimum_snr_db: int, as there.
        language_model: LanguageModelInfo, as there.
        kernels: AppKernelsInfo, as there.

    Returns:
        A list of providers.
    """
    fail_with_all(ctx.label, alignment_problems("weights_alignment", ctx.attr.weights_alignment))
    weights = ctx.actions.declare_file(ctx.label.name + ".ptd")
    args = delegatec_arguments(ctx, "weights")
    args.add(program, format = "--program=%s")
    args.add("--sources=")  # none: weights have no lines
    args.add(weights, format = "--ptd=%s")
    args.add(ctx.attr.weights_alignment, format = "--segment-alignment=%s")
    args.add_all(module_flags(kernels))
    args.add_all(import_roots(ctx, kernels.imports), format_each = "--import-path=%s", uniquify = True)
    delegatec_action(
        ctx,
        args = args,
        inputs = depset([program], transitive = [kernels.files]),
        mnemonic = "DelegateWeights",
        outputs = [weights],
        progress_message = "Writing the weights of %s" % label_text(ctx.label),
    )
    return [
        DefaultInfo(
            files = depset([program]),
            runfiles = ctx.runfiles([program]),
        ),
        ExportedProgramInfo(
            kernels = kernels,
            label = ctx.label,
            language_model = language_model,
            license = license,
            license_files = license_files,
            minimum_snr_db = minimum_snr_db,
            program = program,
            quantized = quantized,
            samples = samples,
            signature = signature,
            sources = sources,
            weights = weights,
        ),
        OutputGroupInfo(
            samples = depset([samples] if samples else []),
            signature = depset([signature]),
            sources = depset([sources]),
            weights = depset([weights]),
        ),
    ]
