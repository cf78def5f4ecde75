# SPDX-License-Identifier: Apache-2.0
"""What reference executors are made of: values by id, and what to do where a runtime's behaviour is open."""
