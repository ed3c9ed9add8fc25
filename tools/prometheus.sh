#!/usr/bin/env bash
# Debian's Prometheus for the tests of GPU use: installed once, where it is missing. Its service is not wanted.
set -euo pipefail
[ -x /usr/bin/prometheus ] && exit 0
run() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
echo "installing Prometheus for the tests of GPU use"
run apt-get update -qq
run env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends prometheus >/dev/null
[ -x /usr/bin/prometheus ]
