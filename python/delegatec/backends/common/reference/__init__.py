# SPDX-License-Identifier: Apache-2.0
"""Parts of reference executors: values by id, and unspecified behavior of runtimes."""
