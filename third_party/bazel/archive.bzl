# SPDX-License-Identifier: Apache-2.0
"""A repository from the distribution's package if installed, otherwise a pinned download."""

def _edited_copy(rctx, root, edits, additions):
    """Copies the directories of edited and added files and applies the edits to the copy.

    Returns:
        The top-level directories that were copied.
    """
    tops = {path.split("/")[0]: None for path in edits.keys() + additions.keys()}.keys()
    for top in tops:
        copied = rctx.execute(["cp", "-RL", str(root.get_child(top)), top])
        if copied.return_code:
            fail("cannot copy %s: %s" % (root.get_child(top), copied.stderr))
    for path, substitutions in edits.items():
        text = rctx.read(path)
        for substitution in substitutions.splitlines():
            old, _, new = substitution.partition(" => ")
            if old not in text:
                fail("%s does not contain the text to replace: %s" % (path, old))
            text = text.replace(old, new)
        rctx.delete(path)
        rctx.file(path, text, executable = False)
    return tops

def _add(rctx):
    for path, text in rctx.attr.additions.items():
        rctx.file(path, text, executable = False)

def _distribution_or_http_archive_impl(rctx):
    root = rctx.path(rctx.attr.distribution_path)
    if not root.exists:
        rctx.download_and_extract(
            url = rctx.attr.urls,
            sha256 = rctx.attr.sha256,
            stripPrefix = rctx.attr.strip_prefix,
        )
        _add(rctx)
        return
    copied = _edited_copy(rctx, root, rctx.attr.distribution_edits, rctx.attr.additions)
    _add(rctx)
    for child in root.readdir():
        if child.basename not in copied:
            rctx.symlink(child, child.basename)

distribution_or_http_archive = repository_rule(
    implementation = _distribution_or_http_archive_impl,
    doc = "Links a directory of the distribution if it exists, otherwise downloads a pinned archive.",
    attrs = {
        "additions": attr.string_dict(
            doc = "Path to text: files that are added.",
        ),
        "distribution_edits": attr.string_dict(
            doc = "Path to lines of `old => new`: substitutions in the distribution's copy.",
        ),
        "distribution_path": attr.string(
            mandatory = True,
            doc = "The path at which the distribution installs the repository.",
        ),
        "sha256": attr.string(
            mandatory = True,
            doc = "SHA-256 of the archive.",
        ),
        "strip_prefix": attr.string(
            doc = "Directory in the archive that becomes the repository's root.",
        ),
        "urls": attr.string_list(
            mandatory = True,
            doc = "URLs of the archive, tried in order.",
        ),
    },
)
