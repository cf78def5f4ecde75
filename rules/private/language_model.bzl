# SPDX-License-Identifier: Apache-2.0
"""`language_model`: a checkpoint's folder to an exported program, which ExecuTorch's stock runner calls."""

load("//rules:providers.bzl", "ExportedProgramInfo", "LanguageModelInfo")
load(":compiler_tables.bzl", "LANGUAGE_MODEL_ACTIVATIONS", "LANGUAGE_MODEL_WEIGHTS")
load(":delegatec_action.bzl", "ACTION_ATTRS", "delegatec_action", "delegatec_arguments")
load(":exported_program.bzl", "EXPORT_ATTRS", "export_model")
load(":labels.bzl", "label_text")
load(":options.bzl", "did_you_mean", "fail_with_all", "problem")
load(":python_paths.bzl", "import_roots", "merged_python")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

# Files of a published folder that the weights and the export depend on; others may change without a build.
_CONFIGURATIONS = ["config.json", "generation_config.json", "model.safetensors.index.json"]

# Files that the tokenizer of the stock runner reads.
_TOKENIZERS = ["tekken.json", "tokenizer.bin", "tokenizer.json", "tokenizer.model", "tokenizer_config.json"]

_ENTRY = """\
# SPDX-License-Identifier: Apache-2.0
\"\"\"The language model of {label}, generated.\"\"\"

import delegatec


def build() -> delegatec.Model:
    return delegatec.language_model("{weights}", context={context}, prefill={prefill})
"""

def _problems(ctx):
    """Returns the problems of the attributes that are known before anything is built."""
    problems = []
    for name, choices in [
        ("weights", LANGUAGE_MODEL_WEIGHTS),
        ("embedding", LANGUAGE_MODEL_WEIGHTS),
        ("activation", LANGUAGE_MODEL_ACTIVATIONS),
    ]:
        value = getattr(ctx.attr, name)
        if value and value not in choices:
            problems.append(problem(
                "DC130",
                "%s = \"%s\" is not a setting of a language model" % (name, value),
                expected = " or ".join(["\"%s\"" % choice for choice in choices]),
                help = did_you_mean(value, choices),
            ))
    if not 1 <= ctx.attr.prefill or ctx.attr.prefill > ctx.attr.context:
        problems.append(problem(
            "DC138",
            "prefill = %d is not between 1 and context = %d" % (ctx.attr.prefill, ctx.attr.context),
            expected = "1 to context tokens",
            help = "set prefill or context",
        ))
    names = [file.basename for file in ctx.files.checkpoint]
    if "config.json" not in names:
        problems.append(problem(
            "DC115",
            "checkpoint has no config.json: %s" % ", ".join(names[:8]),
            expected = "config.json, *.safetensors and tokenizer.json of the published folder",
            help = "list all files of the folder, such as glob([\"smollm/*\"])",
        ))
    return problems

def _weights(ctx, python):
    """Declares the action that stores the weights; editing the context does not run it again."""
    weights = ctx.actions.declare_file(ctx.label.name + ".weights.safetensors")
    files = [
        file
        for file in ctx.files.checkpoint
        if file.basename in _CONFIGURATIONS or file.extension == "safetensors"
    ]
    args = delegatec_arguments(ctx, "checkpoint")
    args.add_all(files, format_each = "--checkpoint=%s")
    args.add(weights, format = "--weights-file=%s")
    for name in ["weights", "embedding", "activation"]:
        args.add(getattr(ctx.attr, name), format = "--%s=%%s" % name)
    args.add(ctx.attr.group_size, format = "--group-size=%s")
    args.add_all(import_roots(ctx, python.imports), format_each = "--import-path=%s", uniquify = True)
    delegatec_action(
        ctx,
        args = args,
        inputs = depset(files, transitive = [python.files]),
        mnemonic = "DelegateCheckpoint",
        outputs = [weights],
        progress_message = "Storing the weights of %s" % label_text(ctx.label),
    )
    return weights

def _tokenizer(ctx):
    """Returns the files of the tokenizer, in one directory."""
    tokenizer = []
    for file in ctx.files.checkpoint:
        if file.basename in _TOKENIZERS:
            output = ctx.actions.declare_file("%s.tokenizer/%s" % (ctx.label.name, file.basename))
            ctx.actions.symlink(output = output, target_file = file)
            tokenizer.append(output)
    return tokenizer

def _language_model_impl(ctx):
    fail_with_all(ctx.label, _problems(ctx))
    python = merged_python(ctx, [ctx.attr._transformers])
    weights = _weights(ctx, python)
    entry = ctx.actions.declare_file(ctx.label.name + ".entry/language_model_entry.py")
    ctx.actions.write(
        entry,
        _ENTRY.format(
            context = ctx.attr.context,
            label = label_text(ctx.label),
            prefill = ctx.attr.prefill,
            weights = "../" + weights.basename,
        ),
    )
    info = LanguageModelInfo(
        checkpoint = depset(ctx.files.checkpoint),
        tokenizer = depset(_tokenizer(ctx)),
        weights = weights,
    )
    return [info] + export_model(
        ctx,
        entry = "language_model_entry:build",
        srcs = [entry],
        roots = [entry.dirname],
        data = [weights],
        python = python,
        language_model = info,
    )

language_model = rule(
    implementation = _language_model_impl,
    doc = """\
Exports a language model from the folder of its checkpoint, as Hugging Face publishes it. No code of the folder runs.

The program has a cache of keys and values and one method, `forward`, which ExecuTorch's `TextLLMRunner` calls: tokens,
int64 [1, 1 to `prefill`], and the number of tokens before them, int64 [1], to the logits of the next token, float32 [1, 1,
vocabulary]. Its network is the one of the `transformers` library, and a separate action stores its weights.
""",
    attrs = dict(dict(ACTION_ATTRS, **EXPORT_ATTRS), **{
        "activation": attr.string(
            doc = "With int8 and int4 weights: `dynamic_int8`, the default, operands of layers are quantized at run time, one " +
                  "scale and zero point for each token; or `float`.",
        ),
        "checkpoint": attr.label_list(
            mandatory = True,
            allow_empty = False,
            allow_files = True,
            doc = "The files of the published folder: `config.json`, `generation_config.json`, `*.safetensors`, and the tokenizer.",
        ),
        "context": attr.int(
            default = 2048,
            doc = "Tokens that the cache holds: those of the prompt and of the answer, of all turns.",
        ),
        "embedding": attr.string(
            doc = "Dtype of embeddings: as `weights`, with a scale for each row if they are integers. By default `int8` next to " +
                  "int8 and int4 weights, and otherwise the dtype of the weights.",
        ),
        "group_size": attr.int(
            doc = "Input features of a linear layer with one scale, such as 32, with int8 and int4 weights. 0: all of them.",
        ),
        "prefill": attr.int(
            default = 256,
            doc = "The most tokens of one call: the runner passes a longer prompt in several calls.",
        ),
        "weights": attr.string(
            default = LANGUAGE_MODEL_WEIGHTS[0],
            doc = "Dtype of the weights of linear layers: `float32`, `float16`, `int8`, or `int4`.",
        ),
        "_transformers": attr.label(
            cfg = "exec",
            default = Label("@delegatec_pip_models//:lib"),
            providers = [PyInfo],
        ),
    }),
    provides = [ExportedProgramInfo, LanguageModelInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)

def _tokenizer_impl(ctx):
    files = ctx.attr.model[LanguageModelInfo].tokenizer
    return [DefaultInfo(files = files, runfiles = ctx.runfiles(transitive_files = files))]

language_model_tokenizer = rule(
    implementation = _tokenizer_impl,
    doc = "The files of a language model's tokenizer, in one directory, for the app.",
    attrs = {
        "model": attr.label(
            mandatory = True,
            doc = "The `language_model`.",
            providers = [LanguageModelInfo],
        ),
    },
)
