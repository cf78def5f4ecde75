# SPDX-License-Identifier: Apache-2.0
"""The steps of a method in line, and where in memory its values live."""
