# SPDX-License-Identifier: Apache-2.0
"""Toolchain types as strings that are valid here and in a workspace that loads @rules_delegate."""

DELEGATEC_TOOLCHAIN_TYPE = str(Label("//rules:delegatec_toolchain_type"))
FLATC_TOOLCHAIN_TYPE = str(Label("//rules:flatc_toolchain_type"))
