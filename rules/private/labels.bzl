# SPDX-License-Identifier: Apache-2.0
"""Labels in messages and paths: the same with a WORKSPACE file and with modules."""

# Once for all targets: it is slow.
_HAS_REPO_NAME = hasattr(Label("//rules/private:labels.bzl"), "repo_name")

def label_text(label):
    """Returns a label as a user writes it.

    With modules, Bazel prints a target of the main repository as `@@//package:name`.

    Args:
        label: a Label.

    Returns:
        A string: `//package:name`, or `@repository//package:name` in another repository.
    """
    return str(label) if repository_name(label) else "//%s:%s" % (label.package, label.name)

def load_statement(file, name):
    """Returns a statement for a generated BUILD file, which is right in any repository.

    Args:
        file: a Label of the .bzl file, as our repository sees it.
        name: the name to load.

    Returns:
        A string, with a newline.
    """
    return 'load("%s", "%s")\n' % (file, name)

def repository_name(label):
    """Returns the name of a label's repository in the directories `external` and runfiles.

    Args:
        label: a Label.

    Returns:
        A string; empty in the main repository.
    """
    return label.repo_name if _HAS_REPO_NAME else label.workspace_name
