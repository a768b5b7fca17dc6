#!/bin/sh
# Spark runs on Java. Installs Debian's, where there is none and apt may be used; says what to do otherwise.
command -v java >/dev/null 2>&1 && exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "Installing Java for Spark ..."
    apt-get update -qq && apt-get install -y -qq --no-install-recommends default-jre-headless >/dev/null && exit 0
fi
echo "Spark needs Java and there is none: install a Java runtime (17 or newer) and run this again" >&2
exit 1
