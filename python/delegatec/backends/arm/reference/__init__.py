# SPDX-License-Identifier: Apache-2.0
"""Runs TOSA graphs on the host, from their blobs alone."""

from delegatec.backends.arm.reference.executor import TosaReferenceExecutor as TosaReferenceExecutor
