# SPDX-License-Identifier: Apache-2.0
"""Providers of the rules."""

AppKernelsInfo = provider(
    doc = "Kernels of custom operators, which an app registers in the runtime.",
    fields = {
        "files": "depset of File: sources and runfiles of the modules.",
        "imports": "depset of string: their import paths, for a runfiles tree.",
        "kernels": "depset of string: names of kernels, such as \"dsp::window.out\".",
        "modules": "depset of string: modules that register the operators.",
    },
)

DelegateRuntimeInfo = provider(
    doc = "ExecuTorch's runtime as C++ libraries.",
    fields = {
        "backends": "dict of string to Target: the library of each backend, with CcInfo, by its id, such as \"XnnpackBackend\".",
        "libraries": "dict of string to Target: the other libraries that it has, with CcInfo, by the name of their attribute of `delegate_runtime`, such as \"kernels\".",
    },
)

ExportedProgramInfo = provider(
    doc = "A model after `torch.export`.",
    fields = {
        "kernels": "AppKernelsInfo: kernels of custom operators, which programs of the model may call.",
        "label": "Label: the target that exported the model.",
        "language_model": "LanguageModelInfo: the checkpoint of a language model and its tokenizer, or None.",
        "license": "string: the license of the model and its weights, as an SPDX expression; empty if it is not declared.",
        "license_files": "depset of File: its text, and notices.",
        "minimum_snr_db": "int: the least signal-to-noise ratio against the model in float that a `quantized_program` demands; 0 for none.",
        "program": "File: the canonical `.pt2` archive.",
        "quantized": "bool: whether a `quantized_program` quantized it, so that its outputs depart from those of the model.",
        "samples": "File: calls of the model in eager mode before `torch.export`, with what it returned, as a `.samples.safetensors`, or None.",
        "signature": "File: names, shapes and dtypes of the methods' inputs and outputs, as JSON.",
        "sources": "File: the lines of the model that each node comes from, as JSON; the `.pt2` itself has none, so that it stays the same when only lines change.",
        "weights": "File: the model's weights as a `.ptd`, for programs with external weights.",
    },
)

LanguageModelInfo = provider(
    doc = "A language model, also one with other inputs than text, that was exported from the folder of its checkpoint.",
    fields = {
        "checkpoint": "depset of File: the folder as it was published.",
        "draft_tokens": "int: the most tokens of a draft model that a call of its programs checks; 0 for none.",
        "has_adapters": "bool: whether its programs load the weights of adapters from a `.ptd`.",
        "kind": "string: name of the rule, such as \"language_model\".",
        "prompt": "dict of string to string: `language` and `task` of a model of speech, if they are set.",
        "tokenizer": "depset of File: the files of the tokenizer, in one directory.",
        "weights": "File: the weights as the program stores them, with the configuration, as `.safetensors`.",
    },
)

LanguageModelAdapterInfo = provider(
    doc = "An adapter (LoRA) of a language model.",
    fields = {
        "checkpoint": "depset of File: the folder as it was published.",
        "model": "Label: the `language_model`.",
        "weights": "File: the weights as programs of the model load them, as a `.ptd`.",
    },
)

DelegateProgramInfo = provider(
    doc = "A model lowered to a program that the runtime loads.",
    fields = {
        "backend": "string: name of a built-in backend, such as \"mps\", or `module:attribute` of a plug-in; comma-separated if there are several.",
        "backends": "list of string: each of them; empty for the portable kernels.",
        "blobs": "File: the delegates' blobs with their graphs as text and JSON, as a zip. Built on demand.",
        "debug": "File: maps instructions, including those of delegates, to nodes of the exported program and lines of the model, as JSON.",
        "etrecord": "File: the program with its weights and debug handles, for ExecuTorch's developer tools. Built on demand.",
        "exported": "ExportedProgramInfo: the model that was lowered.",
        "full_delegation": "bool: whether the lowering fails if anything is left outside of delegates.",
        "host_options": "dict like `options`: those of `host_program`, or None.",
        "host_program": "File: the same program with delegates that run on this host, if its own do not, else None. Built on demand.",
        "ir": "File: the program after lowering, as text.",
        "manifest": "File: methods, delegates, operators, weights and memory plan, as JSON.",
        "options": "dict of string to string or list of string: the backend options set by the target; rules of one backend such as `mps_program` set all options, including defaults.",
        "plugin_files": "depset of File: sources and runfiles of a plug-in; empty for a built-in backend.",
        "plugin_imports": "depset of string: import paths of a plug-in, for a runfiles tree.",
        "program": "File: the `.pte` program.",
        "reasons": "File: the reason why each operator was not delegated, and possible remedies, as text.",
        "report": "File: the lowering of each node, with reasons, as one HTML file.",
        "selected_operators": "File: what the program calls outside of delegates, for a selective build of ExecuTorch's kernels, as YAML.",
        "weights": "File: the `.ptd` of the exported program if the program has external weights, such as those of adapters, else None.",
    },
)

ProgramVariantsInfo = provider(
    doc = "Programs that were built under several settings.",
    fields = {
        "infos": "dict of variant to list of DelegateProgramInfo: the same programs, under paths that they have in several variants.",
        "variants": "dict of variant to list of struct(manifest, program, report, weights): Files of DelegateProgramInfo, in a directory of the variant.",
    },
)
