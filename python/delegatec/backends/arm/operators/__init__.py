# SPDX-License-Identifier: Apache-2.0
"""The operator table: lowerings of ATen and dialect operators to TOSA."""
