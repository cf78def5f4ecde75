# SPDX-License-Identifier: Apache-2.0
"""`exported_program`: exports a model to a canonical `.pt2`."""

load("//rules:providers.bzl", "AppKernelsInfo", "ExportedProgramInfo")
load(":app_kernels.bzl", "NO_KERNELS", "merged_kernels")
load(":delegatec_action.bzl", "ACTION_ATTRS", "delegatec_action", "delegatec_arguments")
load(":exported_outputs.bzl", "check_entry", "exported_outputs")
load(":labels.bzl", "label_text")
load(":options.bzl", "fail_with")
load(":python_paths.bzl", "PYTHON_PROVIDERS", "import_roots", "merged_python", "source_roots")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

_DEFAULT_SAMPLES = -1

def export_model(ctx, entry, srcs, roots, data, python, seed = 0, language_model = None, kernels = NO_KERNELS):
    """Declares the action that exports a model.

    Args:
        ctx: the context of a rule with `EXPORT_ATTRS` and ACTION_ATTRS.
        entry: `module:function`, in one of `srcs`.
        srcs: list of File, the sources.
        roots: list of the directories that they import from, as seen by an action.
        data: list of File that the model reads.
        python: the libraries that the sources import, from `merged_python`.
        seed: of the random generators.
        language_model: LanguageModelInfo, of a language model.
        kernels: AppKernelsInfo, of custom operators.

    Returns:
        A list of providers.
    """
    if ctx.attr.samples < _DEFAULT_SAMPLES:
        fail_with(ctx.label, "DC514", "samples cannot be %d" % ctx.attr.samples, expected = "0 or more")
    program = ctx.actions.declare_file(ctx.label.name + ".pt2")
    signature = ctx.actions.declare_file(ctx.label.name + ".signature.json")
    sources = ctx.actions.declare_file(ctx.label.name + ".sources.json")
    samples = ctx.actions.declare_file(ctx.label.name + ".samples.safetensors") if ctx.attr.samples else None

    args = delegatec_arguments(ctx, "export")
    args.add(entry, format = "--entry=%s")
    args.add_all(srcs, format_each = "--source=%s")
    args.add_all(
        roots + import_roots(ctx, depset(transitive = [python.imports, kernels.imports])),
        format_each = "--import-path=%s",
        uniquify = True,
    )
    args.add_all(data, format_each = "--data=%s")
    args.add(str(seed), format = "--seed=%s")
    args.add(program, format = "--program=%s")
    args.add(signature, format = "--signature=%s")
    args.add(sources, format = "--sources=%s")
    if ctx.attr.samples != _DEFAULT_SAMPLES:
        args.add(str(ctx.attr.samples), format = "--samples=%s")
    if samples:
        args.add(samples, format = "--samples-file=%s")
    delegatec_action(
        ctx,
        args = args,
        inputs = depset(srcs + data, transitive = [python.files, kernels.files]),
        mnemonic = "TorchExport",
        outputs = [program, signature, sources] + ([samples] if samples else []),
        progress_message = "Exporting %s" % label_text(ctx.label),
    )
    return exported_outputs(
        ctx,
        program,
        signature,
        sources,
        samples,
        license = ctx.attr.license,
        license_files = depset(ctx.files.license_files),
        language_model = language_model,
        kernels = kernels,
    )

def _exported_program_impl(ctx):
    check_entry(ctx, "entry", ctx.attr.entry)
    return export_model(
        ctx,
        entry = ctx.attr.entry,
        srcs = ctx.files.srcs,
        roots = source_roots(ctx),
        data = ctx.files.data,
        python = merged_python(ctx, ctx.attr.deps),
        seed = ctx.attr.seed,
        kernels = merged_kernels(ctx.attr.kernels),
    )

# Attributes of every rule that exports a model.
EXPORT_ATTRS = {
    "license": attr.string(
        doc = "The license of the model and its weights, as an SPDX expression such as `MIT`, for bills of materials.",
    ),
    "license_files": attr.label_list(
        allow_files = True,
        doc = "Its text, and notices: a `program_bundle` has those of its programs.",
    ),
    "samples": attr.int(
        default = _DEFAULT_SAMPLES,
        doc = "Calls of each method in eager mode, before `torch.export`, that the exported program must agree with; more, if " +
              "dynamic sizes need more. Each `program_test` compares its program with them. 0 for none; -1 for the " +
              "compiler's default, the example inputs and a variation of them.",
    ),
    "weights_alignment": attr.int(
        default = 128,
        doc = "Alignment of each tensor in the `.ptd`, in bytes: a power of two.",
    ),
}

exported_program = rule(
    implementation = _exported_program_impl,
    doc = """\
Exports a PyTorch model once, for all programs that are lowered from it.

Calls `entry` with a fixed seed, without network or home directory, with access to `srcs`, `data` and `deps` only,
and writes the exported model as `NAME.pt2`. The same inputs give the same bytes.

The output group `weights` is `NAME.ptd`, the model's weights by name, for programs with `external_weights`;
`samples` is `NAME.samples.safetensors`, what the model itself returned for some inputs.
""",
    attrs = dict(dict(ACTION_ATTRS, **EXPORT_ATTRS), **{
        "data": attr.label_list(
            allow_files = True,
            doc = "Files that the model reads, such as its checkpoint.",
        ),
        "deps": attr.label_list(
            doc = "Libraries that the sources import. torch, numpy, safetensors and delegatec are always available.",
            providers = PYTHON_PROVIDERS,
        ),
        "entry": attr.string(
            mandatory = True,
            doc = "`module:function`: a function in one of `srcs`, called without arguments, that returns a `delegatec.Model`.",
        ),
        "kernels": attr.label_list(
            doc = "Targets of `app_kernels`: custom operators that the model calls, and that the app has kernels for.",
            providers = [AppKernelsInfo],
        ),
        "seed": attr.int(
            default = 0,
            doc = "Seed of the random generators of torch, numpy and Python when `entry` is called.",
        ),
        "srcs": attr.label_list(
            mandatory = True,
            allow_empty = False,
            allow_files = [".py"],
            doc = "The model's sources. They import each other by file name, and other modules by their path from the workspace root.",
        ),
    }),
    provides = [ExportedProgramInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
