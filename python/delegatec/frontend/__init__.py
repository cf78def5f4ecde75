# SPDX-License-Identifier: Apache-2.0
"""The frontend: exports user code to a canonical `.pt2`. The only package that runs user code."""
