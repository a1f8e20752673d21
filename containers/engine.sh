#!/usr/bin/env bash
# Starts a Docker engine where none answers, and ends it again: for CI and for machines without one.
#
#     . containers/engine.sh; docker_up; ...; docker_down
#     containers/engine.sh up | down
#
# docker_up does nothing when an engine answers already. As root on Debian it installs one, otherwise
# it fails with one line that says what is missing. docker_down ends only what a docker_up started;
# a script that shall leave alone what was up before it looks at ENGINE_STARTED (yes or no).
ENGINE=${ENGINE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.biplane/engine}

docker_up() {
  ENGINE_STARTED=no
  docker info >/dev/null 2>&1 && return 0
  if [ -n "${DOCKER_HOST:-}" ] && [ "${DOCKER_HOST}" != unix:///var/run/docker.sock ]; then
    echo "engine: no engine answers at DOCKER_HOST=$DOCKER_HOST; start it there, or unset DOCKER_HOST" >&2
    return 1
  fi
  if [ "$(id -u)" != 0 ]; then
    echo "engine: no engine answers and only root can start one; start it (systemctl start docker), or join the group docker" >&2
    return 1
  fi
  if ! command -v dockerd >/dev/null || ! command -v iptables >/dev/null; then
    command -v apt-get >/dev/null || {
      echo "engine: no dockerd here and no apt-get to install it with; install Docker Engine >= 20.10" >&2
      return 1
    }
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends docker.io iptables; } >/dev/null || {
      echo "engine: apt-get could not install docker.io and iptables" >&2
      return 1
    }
  fi
  mkdir -p "$ENGINE"
  local file pid
  # After kill -9 of an engine its pid files keep the next one from starting.
  for file in /var/run/docker/containerd/containerd.pid /var/run/docker.pid; do
    if [ -f "$file" ] && ! grep -qs '^State:[[:space:]]*[RSD]' "/proc/$(cat "$file")/status"; then
      rm -f "$file"
    fi
  done
  setsid --fork nohup dockerd >"$ENGINE/log" 2>&1 </dev/null
  for _ in $(seq 150); do
    if docker info >/dev/null 2>&1; then
      cp /var/run/docker.pid "$ENGINE/pid"
      ENGINE_STARTED=yes
      return 0
    fi
    grep -qs 'failed to start daemon' "$ENGINE/log" && break
    sleep 0.2
  done
  echo "engine: dockerd did not come up; the end of its log:" >&2
  tail -n 5 "$ENGINE/log" >&2
  pid=$(cat /var/run/docker.pid 2>/dev/null) \
    && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] && kill "$pid"
  return 1
}

docker_down() {
  local pid
  pid=$(cat "$ENGINE/pid" 2>/dev/null) || return 0
  rm -f "$ENGINE/pid"
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] || return 0
  kill "$pid"
  for _ in $(seq 150); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.2
  done
  echo "engine: dockerd (pid $pid) does not end" >&2
  return 1
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  case ${1:-} in
    up) docker_up ;;
    down) docker_down ;;
    *) echo "usage: containers/engine.sh up | down" >&2; exit 254 ;;
  esac
fi
