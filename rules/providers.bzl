# SPDX-License-Identifier: Apache-2.0
"""What the rules hand to each other, and to rules of others."""

ExportedProgramInfo = provider(
    doc = "A model after `torch.export`.",
    fields = {
        "label": "Label: the target that exported the model.",
        "program": "File: the canonical `.pt2` archive.",
        "signature": "File: names, shapes and dtypes of the methods' inputs and outputs, as JSON.",
        "weights": "File: the model's weights as a `.ptd`, for programs that have them outside.",
    },
)

DelegateProgramInfo = provider(
    doc = "A model lowered to a program that the runtime loads.",
    fields = {
        "backend": "string: name of a built-in backend, such as \"mps\", or `module:attribute` of a plug-in; several have commas between them.",
        "backends": "list of string: each of them; empty for the portable kernels.",
        "debug": "File: from instructions, and those of delegates, to nodes of the exported program and lines of the model, as JSON.",
        "etrecord": "File: the program with its weights and debug handles, for ExecuTorch's developer tools. It is made by an action of its own.",
        "exported": "ExportedProgramInfo: the model that was lowered.",
        "ir": "File: the program after lowering, as text.",
        "manifest": "File: methods, delegates, operators, weights and memory plan, as JSON.",
        "options": "dict of string to string: the backend's options that the target sets; `mps_program` sets all of its own, defaults too.",
        "plugin_files": "depset of File: sources and run files of a plug-in; empty for a built-in backend.",
        "plugin_imports": "depset of string: import paths of a plug-in, for a runfiles tree.",
        "program": "File: the `.pte` program.",
        "reasons": "File: for each operator that was not delegated why, and what would help, as text.",
        "report": "File: what became of each node, and why, as one HTML file.",
        "weights": "File: the `.ptd` of the exported program, if the program has weights there; None otherwise.",
    },
)
