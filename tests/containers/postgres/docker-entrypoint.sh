#!/bin/bash
# What the official image of PostgreSQL does, as far as compose.yaml needs it.
set -e
if [ "$1" = postgres ] && [ "$(id -u)" = 0 ]; then
    install -d -m 700 -o postgres -g postgres "$PGDATA" /var/run/postgresql
    chmod 2775 /var/run/postgresql
    exec setpriv --reuid postgres --regid postgres --init-groups "$0" "$@"
fi
if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username=postgres --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust --auth-host=scram-sha-256
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
    pg_ctl -w start -o "${*:2} -c listen_addresses="
    export POSTGRES_USER=postgres
    for script in /docker-entrypoint-initdb.d/*; do
        sh "$script"
    done
    pg_ctl -w -m fast stop
fi
exec "$@"
