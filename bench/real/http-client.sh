#!/bin/sh
# Loads a server on this machine and prints what it answered: counts and bytes, no times.
#
#   http-client.sh PORT REQUESTS PATH...
#
# Each path gets REQUESTS requests from eight connections that stay open.
set -eu
at=http://127.0.0.1:$1
requests=$2
shift 2
tries=0
until ab -q -n 1 "$at$1" >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "no server at $at" >&2; exit 1; }
    sleep 0.05
done
for path; do
    said=$(ab -q -k -l -H "Accept-Encoding: gzip" -c 8 -n "$requests" "$at$path")
    printf '%s\n' "$said" | grep -E '^(Complete|Failed|Non-2xx)|^HTML transferred'
    case $said in *Non-2xx*) exit 1 ;; esac
done
