# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests: the actions of the target under test."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest")
load("//rules/private:labels.bzl", "repository_name")

def action_of(env, mnemonic):
    """Returns the only action with a mnemonic.

    Args:
        env: the test's environment.
        mnemonic: such as "TorchExport".

    Returns:
        The action.
    """
    found = [action for action in analysistest.target_actions(env) if action.mnemonic == mnemonic]
    if len(found) != 1:
        fail("%d actions with mnemonic %s, and 1 was expected" % (len(found), mnemonic))
    return found[0]

def names_of(files):
    """Returns the sorted base names of a depset of files.

    Args:
        files: depset of File.

    Returns:
        A list of strings.
    """
    return sorted([file.basename for file in files.to_list()])

def flags_of(action):
    """Returns the compiler's flags in the action's parameter file.

    Args:
        action: an action that runs the compiler.

    Returns:
        dict of flag, without dashes, to the list of its values.
    """
    flags = {}
    for argument in action.argv:
        if argument.startswith("--"):
            flag, _, value = argument[len("--"):].partition("=")
            flags.setdefault(flag, []).append(value)
    return flags

def external_path(label):
    """Returns the path of a file of another repository in a runfiles tree, relative to the workspace's directory.

    Args:
        label: its Label.

    Returns:
        A string.
    """
    return "../%s/%s" % (repository_name(label), label.name)
