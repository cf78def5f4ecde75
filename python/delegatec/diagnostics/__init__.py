# SPDX-License-Identifier: Apache-2.0
"""Diagnostics: the leaf that every package of the compiler may import."""

from delegatec.diagnostics.codes import CODES as CODES
from delegatec.diagnostics.diagnostic import DelegatecError as DelegatecError
from delegatec.diagnostics.diagnostic import Diagnostic as Diagnostic
from delegatec.diagnostics.diagnostic import SourceLocation as SourceLocation
from delegatec.diagnostics.diagnostic import render as render
