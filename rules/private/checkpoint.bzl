# SPDX-License-Identifier: Apache-2.0
"""What the rules that export a model from the folder of its checkpoint have in common."""

load("//rules:providers.bzl", "LanguageModelInfo")
load(":compiler_tables.bzl", "LANGUAGE_MODEL_ACTIVATIONS", "LANGUAGE_MODEL_CACHES", "LANGUAGE_MODEL_WEIGHTS")
load(":delegatec_action.bzl", "ACTION_ATTRS", "delegatec_action", "delegatec_arguments")
load(":exported_program.bzl", "EXPORT_ATTRS", "export_model")
load(":labels.bzl", "label_text")
load(":options.bzl", "did_you_mean", "problem")
load(":python_paths.bzl", "PYTHON_PROVIDERS", "import_roots", "merged_python")

# Files of a published folder that the weights and the export depend on; others may change without a build.
_CONFIGURATIONS = [
    "config.json",
    "generation_config.json",
    "model.safetensors.index.json",
    "preprocessor_config.json",
    "processor_config.json",
]

_WEIGHTS = ["gguf", "safetensors"]

# Files that the tokenizer of the stock runner reads.
_TOKENIZERS = ["tekken.json", "tokenizer.bin", "tokenizer.json", "tokenizer.model", "tokenizer_config.json"]

_ENTRY = """\
# SPDX-License-Identifier: Apache-2.0
\"\"\"The model of {label}, generated.\"\"\"

import delegatec


def build() -> delegatec.Model:
    return delegatec.{kind}("{weights}"{arguments})
"""

def _settings(ctx):
    """Returns the names of the attributes that are dtypes."""
    names = ["weights", "embedding", "activation"]
    return names + (["vision_weights"] if hasattr(ctx.attr, "vision_weights") else [])

def checkpoint_problems(ctx):
    """Returns the problems of `CHECKPOINT_ATTRS` that are known before anything is built.

    Args:
        ctx: the context of a rule with `CHECKPOINT_ATTRS`.

    Returns:
        A list of problems.
    """
    problems = []
    for name in _settings(ctx):
        value = getattr(ctx.attr, name)
        choices = LANGUAGE_MODEL_ACTIVATIONS if name == "activation" else LANGUAGE_MODEL_WEIGHTS
        problems += choice_problems(name, value, choices, "weights") if value else []
    names = [file.basename for file in ctx.files.checkpoint]
    if [name for name in names if name.endswith(".gguf")]:
        if "tokenizer.json" not in names:
            problems.append(problem(
                "DC115",
                "checkpoint has no tokenizer.json: %s" % ", ".join(names[:8]),
                expected = "the GGUF file, and tokenizer.json of the model that it was converted from",
                help = "the stock runner does not read the tokenizer of a GGUF file",
            ))
    elif "config.json" not in names:
        problems.append(problem(
            "DC115",
            "checkpoint has no config.json: %s" % ", ".join(names[:8]),
            expected = "config.json, *.safetensors and tokenizer.json of the published folder",
            help = "list all files of the folder, such as glob([\"smollm/*\"])",
        ))
    return problems

def choice_problems(name, value, choices, what):
    """Returns the problems of an attribute that has one of several values.

    Args:
        name: the attribute.
        value: its value.
        choices: the values that it may have.
        what: what it is a setting of.

    Returns:
        A list of problems.
    """
    if value in choices:
        return []
    return [problem(
        "DC130",
        "%s = \"%s\" is not a setting of %s" % (name, value, what),
        expected = " or ".join(["\"%s\"" % choice for choice in choices]),
        help = did_you_mean(value, choices),
    )]

def cache_problems(ctx, what):
    """Returns the problems of `CACHE_ATTRS`.

    Args:
        ctx: the context of a rule with these attributes.
        what: what `cache` is a setting of.

    Returns:
        A list of problems.
    """
    return choice_problems("cache", ctx.attr.cache, LANGUAGE_MODEL_CACHES, what)

def size_problems(ctx):
    """Returns the problems of `context` and `prefill`.

    Args:
        ctx: the context of a rule with these attributes.

    Returns:
        A list of problems.
    """
    if 1 <= ctx.attr.prefill and ctx.attr.prefill <= ctx.attr.context:
        return []
    return [problem(
        "DC138",
        "prefill = %d is not between 1 and context = %d" % (ctx.attr.prefill, ctx.attr.context),
        expected = "1 to context tokens",
        help = "set prefill or context",
    )]

def _weights(ctx, kind, python):
    """Declares the action that stores the weights; editing the context does not run it again."""
    weights = ctx.actions.declare_file(ctx.label.name + ".weights.safetensors")
    files = [
        file
        for file in ctx.files.checkpoint
        if file.basename in _CONFIGURATIONS or file.extension in _WEIGHTS
    ]
    args = delegatec_arguments(ctx, "checkpoint")
    args.add(kind, format = "--kind=%s")
    args.add_all(files, format_each = "--checkpoint=%s")
    args.add(weights, format = "--weights-file=%s")
    for name in _settings(ctx):
        args.add(getattr(ctx.attr, name), format = "--%s=%%s" % name.replace("_", "-"))
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

def export_checkpoint(ctx, kind, arguments):
    """Declares the actions that store the weights of a checkpoint and export its model.

    Args:
        ctx: the context of a rule with `CHECKPOINT_ATTRS`.
        kind: name of the rule, and of the function of `delegatec` that returns the model.
        arguments: dict of the function's keywords to int, bool, string or a list, besides those of weights; with
            `adapter_rank` if the model has adapters.

    Returns:
        A list of providers.
    """
    python = merged_python(ctx, [ctx.attr._transformers])
    weights = _weights(ctx, kind, python)
    entry = ctx.actions.declare_file("%s.entry/%s_entry.py" % (ctx.label.name, kind))
    ctx.actions.write(
        entry,
        _ENTRY.format(
            arguments = "".join([", %s=%s" % (name, repr(value)) for name, value in sorted(arguments.items())]),
            kind = kind,
            label = label_text(ctx.label),
            weights = "../" + weights.basename,
        ),
    )
    info = LanguageModelInfo(
        checkpoint = depset(ctx.files.checkpoint),
        draft_tokens = arguments.get("draft_tokens", 0),
        has_adapters = "adapter_rank" in arguments,
        kind = kind,
        prompt = {name: arguments[name] for name in ["language", "task"] if arguments.get(name)},
        tokenizer = depset(_tokenizer(ctx)),
        weights = weights,
    )
    return [info] + export_model(
        ctx,
        entry = "%s_entry:build" % kind,
        srcs = [entry],
        roots = [entry.dirname],
        data = [weights],
        python = python,
        language_model = info,
    )

# The attribute of rules whose models have a cache of keys and values.
CACHE_ATTRS = {
    "cache": attr.string(
        default = LANGUAGE_MODEL_CACHES[0],
        doc = "Dtype of keys and values in the cache: `float32`, `float16`, or `int8` with a scale for each row of a head.",
    ),
}

# Attributes of every rule that exports a model from the folder of its checkpoint.
CHECKPOINT_ATTRS = dict(dict(ACTION_ATTRS, **EXPORT_ATTRS), **{
    "activation": attr.string(
        doc = "With int8 and int4 weights: `dynamic_int8`, the default, operands of layers are quantized at run time, one " +
              "scale and zero point for each token; or `float`.",
    ),
    "checkpoint": attr.label_list(
        mandatory = True,
        allow_empty = False,
        allow_files = True,
        doc = "The files of the published folder: its configurations (`*.json`), `*.safetensors`, and the tokenizer. Or a GGUF " +
              "file, which has its configuration, and `tokenizer.json`.",
    ),
    "embedding": attr.string(
        doc = "Dtype of embeddings, and of a layer of logits that is tied to one: as `weights`, with their groups if both are " +
              "int4, and a scale for each row otherwise. By default `int8` next to integer weights, and the dtype of the weights otherwise.",
    ),
    "group_size": attr.int(
        doc = "Input features of a linear layer with one scale, such as 32, with int8 and int4 weights. 0: all of them.",
    ),
    "weights": attr.string(
        default = LANGUAGE_MODEL_WEIGHTS[0],
        doc = "Dtype of the weights of linear layers and experts: `float32`, `float16`, `int8`, or `int4`.",
    ),
    "_transformers": attr.label(
        cfg = "exec",
        default = Label("@delegatec_pip_models//:lib"),
        providers = PYTHON_PROVIDERS,
    ),
})

def _tokenizer_impl(ctx):
    files = ctx.attr.model[LanguageModelInfo].tokenizer
    return [DefaultInfo(files = files, runfiles = ctx.runfiles(transitive_files = files))]

checkpoint_tokenizer = rule(
    implementation = _tokenizer_impl,
    doc = "The files of a model's tokenizer, in one directory, for the app.",
    attrs = {
        "model": attr.label(
            mandatory = True,
            doc = "The model, such as a `language_model`.",
            providers = [LanguageModelInfo],
        ),
    },
)
