#!/bin/sh
# The postgres case: a cluster of its own, on a socket in its folder. Root runs the server as nobody, since postgres
# refuses to run as root.
#
#   postgres.sh prepare BIN FOLDER      make a fresh cluster
#   postgres.sh run BIN FOLDER          become the server, in the foreground
#   postgres.sh load BIN FOLDER N       pgbench's tables, 4 clients with N transactions each; prints sums, no times
set -eu
verb=$1 bin=$2 folder=$3
as=
[ "$(id -u)" != 0 ] || as='setpriv --reuid=nobody --regid=nogroup --clear-groups'
case $verb in
prepare)
    rm -rf "$folder"
    mkdir -p "$folder"
    [ -z "$as" ] || chown nobody:nogroup "$folder"
    # shellcheck disable=SC2086  # a command
    exec $as "$bin/initdb" -D "$folder" -U bench -A trust -N -E UTF8 --locale=C ;;
run)
    # shellcheck disable=SC2086
    exec $as "$bin/postgres" -D "$folder" -k "$folder" -c listen_addresses= -c fsync=off -c autovacuum=off \
        -c shared_buffers=32MB -c max_wal_size=256MB -c log_min_messages=fatal ;;
load)
    tries=0
    until "$bin/psql" -h "$folder" -U bench -d postgres -qc 'SELECT 1' >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { echo "no server in $folder" >&2; exit 1; }
        sleep 0.05
    done
    "$bin/pgbench" -h "$folder" -U bench -q -i -s 1 postgres 2>/dev/null
    "$bin/pgbench" -h "$folder" -U bench -n -c 4 -t "$4" --random-seed=1 postgres 2>&1 | grep 'actually processed'
    exec "$bin/psql" -h "$folder" -U bench -d postgres -Atc \
        "SELECT count(*), sum(abalance), md5(string_agg(aid || ':' || abalance, ',' ORDER BY aid))
         FROM pgbench_accounts" ;;
esac
