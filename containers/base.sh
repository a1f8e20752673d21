#!/usr/bin/env bash
# Makes the image biplane-base:bookworm with debootstrap: a base for the other images where no image
# registry can be reached. As root, about a minute.
set -euo pipefail
tag=${1:-biplane-base:bookworm}

fail() { printf 'base: %s\n' "$1" >&2; exit 1; }

[ "$(id -u)" = 0 ] || fail "only root can make a base image with debootstrap; run: sudo make image"
if ! command -v debootstrap >/dev/null; then
  command -v apt-get >/dev/null || fail "no debootstrap; install it"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends debootstrap; } >/dev/null \
    || fail "apt-get could not install debootstrap"
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$root" \
  > "$root.log" 2>&1 || { tail -n 5 "$root.log" >&2; rm -f "$root.log"; fail "debootstrap failed"; }
rm -f "$root.log"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* \
  "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/*
tar -C "$root" -c . | docker import - "$tag" >/dev/null
echo "base: made $tag"
