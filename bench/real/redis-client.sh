#!/bin/sh
# The client of the redis case: waits for the server, loads it, and ends it.
#
#   redis-client.sh SOCKET REQUESTS
#
# Only the server is measured. Requests come pipelined, so that the server is
# busy with data and not with the socket.
set -eu
socket=$1
requests=$2
call() { redis-cli -s "$socket" "$@" >/dev/null 2>&1; }
tries=0
until call ping; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || exit 1
    sleep 0.02
done
trap 'call shutdown nosave || true' EXIT
bench() { redis-benchmark -s "$socket" -q -P 32 -c 8 -n "$requests" "$@" >/dev/null; }
bench -r 100000 -d 100 -t set
bench -r 100000 -t lpush,sadd,hset,zadd
bench -r 100000 -d 700 -t set
bench -r 100000 -t get,lpop,spop
call flushall
bench -r 20000 -d 40 -t set,incr
