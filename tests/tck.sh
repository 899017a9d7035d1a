#!/usr/bin/env bash
# Runs the official conformance kit against the example agent, once for each profile of the agent.
#
#   tests/tck.sh DRIVER KIT VENV [PROFILE...]
#
#   DRIVER   a program that is called as: DRIVER URL KIT VENV [-- arguments for pytest]
#            Its exit status: 0 if no MUST failed, 1 if one did, 2 if the run itself went wrong.
#   KIT      a checkout of the kit
#   VENV     where the driver keeps the Python environment of the kit
#   PROFILE  open, closed, extension; without any, all of them
#
# PYTHON is the interpreter of the agent. Exit status: 0 if every profile passed, else 1; 2 for wrong arguments.
set -euo pipefail

[ $# -ge 3 ] || { sed -n '2,/^set -euo/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
[ -n "$2" ] || { echo "tck: KIT is missing: say make tck KIT=FOLDER, where FOLDER is a checkout of the official" \
    "conformance kit, https://github.com/a2aproject/a2a-tck" >&2; exit 2; }
DRIVER=$(realpath "$1") KIT=$(realpath "$2") VENV=$(realpath -m "$3"); shift 3
[ $# -gt 0 ] || set -- open closed extension
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
LONGEST_START=100 # tenths of a second
AGENT=

stop() {
    [ -z "$AGENT" ] || { kill "$AGENT" 2>/dev/null; wait "$AGENT" || true; }
    AGENT=
}
trap stop EXIT
trap 'exit 130' INT TERM

free_ports() {
    "$PYTHON" -c 'import socket
taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in taken))'
}

answers() {
    "$PYTHON" -c 'import sys, urllib.request as r
r.build_opener(r.ProxyHandler({})).open(sys.argv[1], timeout=5)' "$1/.well-known/agent-card.json" 2>/dev/null
}

start() { # PROFILE HTTP_PORT GRPC_PORT
    "$PYTHON" -m a2a_grpc.examples.conformance --profile "$1" --http-port "$2" --grpc-port "$3" \
        --media-type-status 400 & # the driver's table has 400 here too, where HTTP has 415
    AGENT=$!
    for _ in $(seq $LONGEST_START); do
        answers "http://127.0.0.1:$2" && return
        kill -0 "$AGENT" 2>/dev/null || break
        sleep 0.1
    done
    echo "tck: the agent did not start" >&2
    return 1
}

check() { # PROFILE; the extension profile refuses everything else that the kit sends
    local ports only=()
    read -ra ports <<<"$(free_ports)"
    [ "$1" != extension ] || only=(-- -k xtension)
    start "$1" "${ports[@]}" && "$DRIVER" "http://127.0.0.1:${ports[0]}" "$KIT" "$VENV" "${only[@]}"
}

SUMMARY=() FAILED=0
for profile in "$@"; do
    echo "── profile $profile"
    if check "$profile"; then result=passed; else result=failed FAILED=1; fi
    stop
    SUMMARY+=("$profile: $result")
done
printf '── summary\n'
printf '%s\n' "${SUMMARY[@]}"
exit "$FAILED"
