"""``python -m harness.workload SPEC.json``: play one role until told to end.

Exit codes: 0 ended as told; 1 the role failed (standard error says why); 2 bad arguments.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from harness.workload.lifecycle import Lifecycle
from harness.workload.recorder import LiveRecorder, RecorderFailed
from harness.workload.roles import role
from harness.workload.spec import WorkloadError, WorkloadSpec


def main(argv: list[str]) -> int:
    if len(argv) != 2:
        print("usage: python -m harness.workload SPEC.json", file=sys.stderr)
        return 2
    # kio looks for hypothesis, and where tests are written that is most of what a role imports.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    try:
        spec = WorkloadSpec.load(Path(argv[1]))
        run = role(spec)
    except WorkloadError as error:
        print(error, file=sys.stderr)
        return 2
    life = Lifecycle(spec.duration_ms)
    gc.collect()
    gc.freeze()
    try:
        with LiveRecorder(spec.output, spec.process) as recorder:
            run(recorder, life)
    except (WorkloadError, RecorderFailed) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
