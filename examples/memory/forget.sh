#!/bin/sh
# Forgets a word for good, also when the memory server is killed between the two steps:
#
#     examples/memory/forget.sh
#     examples/memory/forget.sh --all     # also written by a JSON request, and as a decision that was proposed over MCP
#
# Uses $STEMMADB_MEMORY, or a directory of its own, and a memory server that it starts and stops.
set -eu
WORD=ZEBRA-4711
export STEMMADB_MEMORY="${STEMMADB_MEMORY:-$(mktemp -d)/data}"
SCRATCH=$(mktemp -d)
RUN="$SCRATCH/run"
mkdir -m 700 "$RUN"
SERVER=

serve() {
    stemmadb memory serve --http "unix:$RUN/m.sock" "$@" > "$SCRATCH/log" 2>&1 &
    SERVER=$!
    while ! ask /v1/health > /dev/null; do
        kill -0 $SERVER 2> /dev/null || { cat "$SCRATCH/log" && exit 1; }
        sleep 0.1
    done
}
ask() {
    path=$1
    shift
    curl -s --unix-socket "$RUN/m.sock" "http://memory$path" "$@"
}
note() { python3 -c "import json, sys; print(eval('json.load(open(sys.argv[1]))' + sys.argv[2]))" "$STEMMADB_MEMORY/server.json" "$1"; }
write() {
    ask /v1/namespaces/org:zoo/memories --json "{\"content\": \"the word is $WORD\", \"kind\": \"fact\", \"source\": \"agent\"}" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])'
}
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)'"$1"')'; }
lesson() { stemmadb memory op | field "['data']['memory_id']"; }
# What an agent and a person write elsewhere, in every field that takes text.
write_everywhere() {
    AGENT_MEMORY_SECRET=$(stemmadb memory secret new agent 2> /dev/null)
    export AGENT_MEMORY_SECRET
    LESSON=$(echo "{\"op\": \"write\", \"repo_id\": \"zoo\", \"memory\": {\"kind\": \"fact\", \"scope\": \"repo\",
        \"text\": \"$WORD is striped\", \"rationale\": \"saw $WORD\", \"evidence_refs\": [\"$WORD\"], \"confidence\": 0.5}}" | lesson)
    echo "{\"op\": \"update\", \"repo_id\": \"zoo\", \"memory_id\": \"$LESSON\", \"mode\": \"commit\", \"updates\": {\"truth\":
        {\"target\": 1, \"confidence\": 1, \"rationale\": \"$WORD again\", \"evidence_refs\": [\"$WORD\"]}}}" | lesson > /dev/null
    PROPOSAL=$(printf '%s\n' \
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"sh","version":"1"}}}' \
        '{"jsonrpc":"2.0","method":"notifications/initialized"}' \
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"propose_decision","arguments":{"title":"'$WORD'","target":"'$WORD'","rationale":"'$WORD' has stripes","consequences":["'$WORD'"],"evidence":["'$WORD'"]}}}' |
        stemmadb mcp --ns custom:zoo | tail -1 | field "['result']['structuredContent']['proposal_id']")
    kill $SERVER
    wait $SERVER || true
    serve --test-clock +3601s # its hour of review is over
    AGENT_MEMORY_SECRET=$(stemmadb memory secret new admin 2> /dev/null)
    DECISION=$(stemmadb memory accept "$PROPOSAL" --ns custom:zoo --json | field "['decision_id']")
    test "$(stemmadb memory search "$WORD" --json | field "['memories'].__len__()")" = 2
}
forget() { ask "/v1/memories/$1" -X DELETE -D - --json '{"requested_by_namespace": "org:zoo"}'; }
scan() {
    grep -rac "$WORD" "$STEMMADB_MEMORY" > "$SCRATCH/scan" || true
    cat "$SCRATCH/scan"
    ! grep -qv ':0$' "$SCRATCH/scan"
}
wait_until_gone() {
    for _ in $(seq 300); do scan > /dev/null && return; sleep 0.1; done
    echo "the bytes are still there" && exit 1
}
trap 'kill $SERVER 2> /dev/null || true; wait' EXIT

serve
ask /v1/namespaces/org:zoo -X PUT --json '{"kind": "org"}' > /dev/null
ID=$(write)
URL="ws://127.0.0.1:$(note "['port']")"
SPACE=$(note "['companions']['memory']['spaces']['memory']")

echo "== a branch has the word too, and a backup is made"
ENTITY=$(stemmadb list 'urn:memory:*' --url "$URL" --space "$SPACE" --json | python3 -c '
import json, sys
found = json.load(sys.stdin)
print(next(id for id in found["entities"] if id.endswith(sys.argv[1])))' "$ID")
stemmadb branch create draft --url "$URL" --space "$SPACE" > /dev/null
stemmadb set "$ENTITY" "{\"text\": \"$WORD on a branch\"}" --branch draft --url "$URL" --space "$SPACE" > /dev/null
stemmadb backup "$SCRATCH/backup" --data "$STEMMADB_MEMORY" > /dev/null

echo "== forget it"
forget "$ID" | head -1
wait_until_gone
scan

echo "== merging the branch does not bring it back"
stemmadb merge draft --url "$URL" --space "$SPACE" > /dev/null || true
ask /v1/search --json '{"namespaces": ["org:zoo"]}' && echo
scan > /dev/null

echo "== once more, and the memory server is killed between the two steps"
for attempt in $(seq 30); do # the second step takes milliseconds: try until the kill comes before it
    ID=$(write)
    forget "$ID" > /dev/null &
    ASKED=$!
    while ask /v1/search --json '{"namespaces": ["org:zoo"]}' | grep -q "$WORD"; do :; done
    kill -9 $SERVER
    wait $ASKED || true
    wait $SERVER || true
    scan > "$SCRATCH/between" || break
    serve
done
grep -v ':0$' "$SCRATCH/between" # hidden, and not erased yet
serve
ask /v1/search --json '{"namespaces": ["org:zoo"]}' && echo
wait_until_gone
scan
if [ "${1:-}" = --all ]; then
    echo "== by a JSON request, and as a decision that was proposed over MCP and accepted"
    write_everywhere
    stemmadb memory forget "$LESSON" > /dev/null
    stemmadb memory forget "$DECISION" > /dev/null
    test "$(stemmadb memory search "$WORD" --json | field "['memories'].__len__()")" = 0
    scan
    grep -c propose_decision "$STEMMADB_MEMORY/audit.jsonl"
fi
kill $SERVER
wait $SERVER || true

echo "== the history still verifies, and the backup still has the word"
stemmadb verify --data "$STEMMADB_MEMORY"
grep -raq "$WORD" "$SCRATCH/backup" && echo "the backup has it: delete old backups yourself"
echo "== done"
