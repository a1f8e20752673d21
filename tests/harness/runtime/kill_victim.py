"""A harness to be killed: makes a runtime and containers in a loop. Run by test_docker_clean.py.

Says ``making`` before it begins, so that the killer can count from there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.runtime.docker import DockerRuntime
from harness.runtime.protocol import ProcessSpec, Ready, Role


def main() -> None:
    folder = Path(sys.argv[1])
    print("making", flush=True)
    number = 0
    while True:
        number += 1
        runtime = DockerRuntime(f"victim-{number}")
        runtime.prepare()
        for name in ("a", "b"):
            workdir = folder / f"{number}-{name}"
            bounded = "mount" in sys.argv[2:]
            handle = runtime.spawn(
                ProcessSpec(
                    name=name,
                    role=Role.NODE,
                    argv=(runtime.programs.python, "-c", "import time; time.sleep(600)"),
                    workdir=workdir,
                    ready=Ready(),
                    disk=workdir / "disk" if bounded else None,
                    disk_bytes=1 << 20 if bounded else None,
                )
            )
            handle.wait_ready(5)
        print("made", flush=True)
        runtime.close()


if __name__ == "__main__":
    main()
