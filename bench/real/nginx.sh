#!/bin/sh
# Writes nginx's configuration: a server without a master, which includes files in pages and packs what it sends.
#
#   nginx.sh FOLDER PORT PAGES
set -eu
mkdir -p "$1"
cat >"$1/nginx.conf" <<END
daemon off;
master_process off;
pid $1/nginx.pid;
error_log stderr error;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path $1/body;
    proxy_temp_path $1/proxy;
    fastcgi_temp_path $1/fastcgi;
    uwsgi_temp_path $1/uwsgi;
    scgi_temp_path $1/scgi;
    keepalive_requests 1000000;
    gzip on;
    gzip_types *;
    ssi on;
    types { text/html html; }
    server {
        listen 127.0.0.1:$2;
        root $3;
    }
}
END
