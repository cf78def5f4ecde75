# SPDX-License-Identifier: Apache-2.0
"""Delegation: partitioning a program, handing the parts to backends, and putting delegates in their place."""

from delegatec.delegation.backend import Backend as Backend
from delegatec.delegation.backend import NamedData as NamedData
from delegatec.delegation.backend import OptionSpec as OptionSpec
from delegatec.delegation.backend import PreprocessResult as PreprocessResult
from delegatec.delegation.backend import ReferenceExecutor as ReferenceExecutor
from delegatec.delegation.blob_graph import BlobGraph as BlobGraph
from delegatec.delegation.blob_graph import BlobLabels as BlobLabels
from delegatec.delegation.blob_graph import BlobNode as BlobNode
from delegatec.delegation.blob_graph import BlobValue as BlobValue
from delegatec.delegation.blob_graph import Family as Family
from delegatec.delegation.blob_text import format_blob_graph as format_blob_graph
from delegatec.delegation.call_delegate import call_delegate as call_delegate
from delegatec.delegation.checks import unchecked_partitioners as unchecked_partitioners
from delegatec.delegation.compile_spec import CompileSpec as CompileSpec
from delegatec.delegation.lowered_module import LoweredModule as LoweredModule
from delegatec.delegation.lowered_program import LoweredProgram as LoweredProgram
from delegatec.delegation.mapping import DebugHandleMap as DebugHandleMap
from delegatec.delegation.mapping import DelegateMappingBuilder as DelegateMappingBuilder
from delegatec.delegation.options import resolve_options as resolve_options
from delegatec.delegation.original import Original as Original
from delegatec.delegation.partitioner import DelegationSpec as DelegationSpec
from delegatec.delegation.partitioner import Partitioner as Partitioner
from delegatec.delegation.partitioner import Partitioning as Partitioning
from delegatec.delegation.partitioner import Rejection as Rejection
from delegatec.delegation.registry import BackendRegistry as BackendRegistry
from delegatec.delegation.report import DelegateSummary as DelegateSummary
from delegatec.delegation.report import DelegationReport as DelegationReport
from delegatec.delegation.report import RejectionSummary as RejectionSummary
from delegatec.delegation.ruled_partitioner import RuledPartitioner as RuledPartitioner
from delegatec.delegation.rules import PartitionRules as PartitionRules
from delegatec.delegation.to_backend import Delegated as Delegated
from delegatec.delegation.to_backend import Partitioners as Partitioners
from delegatec.delegation.to_backend import to_backend as to_backend
from delegatec.delegation.view import PartitionView as PartitionView
