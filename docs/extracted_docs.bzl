# SPDX-License-Identifier: Apache-2.0
"""`extracted_docs`: the documentation in a Starlark file, where Bazel has a rule that extracts it."""

def extracted_docs(name, src, deps):
    """Declares `NAME.textproto`, Stardoc's ModuleInfo of a file. Bazel 4.2.3 has no such rule, and no such target.

    Args:
        name: the target's name.
        src: the file.
        deps: targets of the files that it loads, directly or not.
    """
    if hasattr(native, "starlark_doc_extract"):
        native.starlark_doc_extract(
            name = name,
            src = src,
            tags = ["manual"],
            deps = deps,
        )
