# SPDX-License-Identifier: Apache-2.0
"""The command line: one module a verb, and the Bazel worker that runs the same verbs."""
