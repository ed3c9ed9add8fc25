#!/usr/bin/env bash
# Debian's Chromium for the portal's browser tests: installed once, where it is missing.
set -euo pipefail
[ -x /usr/bin/chromium ] && exit 0
run() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
echo "installing Chromium for the portal's tests"
run apt-get update -qq
run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
[ -x /usr/bin/chromium ]
