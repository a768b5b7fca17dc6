#!/bin/sh
# Makes a Chromium present for the tests of the report's page. Without one they skip and say so.
set -eu

for name in chromium chromium-browser google-chrome google-chrome-stable; do
  if command -v "$name" >/dev/null 2>&1; then
    exit 0
  fi
done

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "No Chromium found, and only root on Debian installs one here: the report's browser tests will be skipped." >&2
  exit 1
fi

echo "Installing Chromium for the tests of the report (once) ..."
export DEBIAN_FRONTEND=noninteractive
if { apt-get update && apt-get install -y --no-install-recommends chromium; } >/tmp/install-chromium.log 2>&1; then
  exit 0
fi
echo "Chromium could not be installed (see /tmp/install-chromium.log): the report's browser tests will be skipped." >&2
exit 1
