#!/bin/sh
# Every command of kproxy once, on the kernel of this guest: commands.sh KPROXY
set -eu
kproxy=$1
folder=$(mktemp -d)
manifests=$folder/manifests
state=$folder/state
mkdir "$manifests"

service() { # NAME ADDRESS
    cat <<EOF
---
apiVersion: v1
kind: Service
metadata: {name: $1, namespace: default}
spec:
  clusterIP: $2
  clusterIPs: [$2]
  ipFamilies: [IPv4]
  ports: [{name: http, port: 80, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: $1-1, namespace: default, labels: {kubernetes.io/service-name: $1}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.1.1]}, {addresses: [10.244.1.2]}]
EOF
}

# Runs a command, which must end with this code.
expect() { # CODE WORDS...
    want=$1
    shift
    code=0
    "$@" || code=$?
    if [ "$code" != "$want" ]; then
        echo "exit code $code, not $want: $*"
        exit 1
    fi
}

plan() { "$kproxy" plan -f "$manifests" --no-node --state-dir "$state" >"$folder/plan"; }

service web 10.96.0.10 >"$manifests/web.yaml"
expect 2 plan
expect 0 "$kproxy" apply -f "$manifests" --no-node --state-dir "$state"
expect 0 plan
"$kproxy" explain -f "$manifests" --no-node --from 10.244.1.7 --to 10.96.0.10:80/tcp >"$folder/why"
grep -q 10.244.1.2 "$folder/why"
"$kproxy" explain -f "$manifests" --no-node --live --from 10.244.1.7 --to 10.96.0.10:80/tcp >"$folder/why"
grep -q 10.244.1.2 "$folder/why"

service other 10.96.0.11 >"$manifests/other.yaml"
expect 2 plan
"$kproxy" run --source "dir:$manifests" --no-node --state-dir "$state" 2>"$folder/log" &
running=$!
until plan; do
    kill -0 "$running" || { cat "$folder/log"; exit 1; }
    sleep 1
done
kill "$running"
wait "$running" || { cat "$folder/log"; exit 1; }
expect 0 "$kproxy" cleanup
expect 2 plan
echo "all commands work"
