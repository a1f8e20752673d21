"""Client roles, one a file, each run as a process of its own that records what it lived.

`launch` (a `WorkloadSpec`) is the way in; see its module. Heavy imports (librdkafka, kazoo) happen
in the child only.
"""

from harness.workload.launch import WorkloadProcess, launch
from harness.workload.recorder import LiveRecorder
from harness.workload.spec import ROLES, WorkloadError, WorkloadSpec

__all__ = ["ROLES", "LiveRecorder", "WorkloadError", "WorkloadProcess", "WorkloadSpec", "launch"]
