# SPDX-License-Identifier: Apache-2.0
"""Static analysis of the values of a program."""
