#!/usr/bin/env bash
# Two agents, two checkouts, one plan. Starts a server of its own in a temporary directory and removes it at the end.
#
#   examples/memory/two_checkouts.sh
#
# The agents edit different fields of one task (both are kept), the same field (reported; the store's version lies beside
# it) and both make task 1.2.4 (the second is told). A second sync changes nothing. Needs stemmadb[memory], git and jq.
set -euo pipefail

work=$(mktemp -d)
export STEMMADB_HOME=$work/keys STEMMADB_MEMORY=$work/data XDG_RUNTIME_DIR=$work
unset CLAUDE_PROJECT_DIR AGENT_MEMORY_SECRET
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

stemmadb memory serve >"$work/serve.log" 2>&1 & # a command would start it too; this one ends with the script
server=$!
declare -A secrets
for name in ada bob; do
  secrets[$name]=$(stemmadb memory secret new agent --name "$name" 2>/dev/null)
done

say() { printf '\n== %s\n' "$1"; }
check() { if ! eval "$1"; then echo "FAILED: $1" >&2; exit 1; fi; }
in_checkout() { (cd "$work/$1" && export AGENT_MEMORY_SECRET=${secrets[$1]} && shift && "$@"); }
sync() { in_checkout "$1" stemmadb memory files sync; }
task() { printf '%s/.claude/memory/tasks/%s.json' "$work/$1" "$2"; }
update() { (cd "$work/$1" && . .claude/memory/lib/memory.sh && memory_update_json ".claude/memory/tasks/$2.json" "$3"); }
write() { (cd "$work/$1" && . .claude/memory/lib/memory.sh && memory_write ".claude/memory/tasks/$2.json" "$3"); }

for name in ada bob; do
  git init -q "$work/$name"
  git -C "$work/$name" remote add origin git@example.org:acme/api.git # the same remote: the same plan
  in_checkout "$name" stemmadb memory files init >/dev/null
done

say "without a secret nothing is written, and sync says what it would do"
write ada 1 '{"id": "1", "type": "epic", "status": "pending", "title": "Login"}'
check '! (cd "$work/ada" && stemmadb memory files sync)'

say "ada writes a plan, bob gets it"
write ada 1.2 '{"id": "1.2", "type": "feature", "status": "pending"}'
write ada 1.2.1 '{"id": "1.2.1", "type": "task", "status": "pending", "title": "Form"}'
sync ada
sync bob
check 'cmp -s "$(task ada 1.2.1)" "$(task bob 1.2.1)"'

say "different fields of one task: both are kept"
update ada 1.2.1 '.title = "Login form"'
update bob 1.2.1 '.agent = "bob"'
sync ada
sync bob
sync ada
for name in ada bob; do
  check '[[ $(jq -r "[.title, .agent] | join(\",\")" "$(task $name 1.2.1)") == "Login form,bob" ]]'
done

say "the same field: bob is told, and nothing of his file is written"
update ada 1.2.1 '.title = "Form by ada"'
update bob 1.2.1 '.title = "Form by bob"'
sync ada
check '! sync bob'
check '[[ $(jq -r .title "$(task bob 1.2.1)") == "Form by bob" ]]'
check '[[ $(jq -r .title "$work/bob/.claude/memory/.stemma/conflicts/tasks/1.2.1.json.theirs") == "Form by ada" ]]'
in_checkout bob stemmadb memory files sync --take-store tasks/1.2.1.json
check '[[ $(jq -r .title "$(task bob 1.2.1)") == "Form by ada" ]]'

say "both make 1.2.4: the first to sync keeps it, the second gives his another number"
write ada 1.2.4 '{"id": "1.2.4", "type": "task", "status": "pending", "title": "Ada was here"}'
write bob 1.2.4 '{"id": "1.2.4", "type": "task", "status": "pending", "title": "Bob was here"}'
sync ada
check '! sync bob'
check '[[ $(jq -r .title "$(task bob 1.2.4)") == "Bob was here" ]]'
mv "$(task bob 1.2.4)" "$(task bob 1.2.5)"
update bob 1.2.5 '.id = "1.2.5"'
sync bob
sync ada

say "a second sync changes nothing, and both have the same bytes"
for name in ada bob; do
  before=$(find "$work/$name/.claude" -type f -exec cksum {} + | sort)
  sync "$name"
  check '[[ $before == "$(find "$work/$name/.claude" -type f -exec cksum {} + | sort)" ]]'
done
check 'diff -r "$work/ada/.claude/memory/tasks" "$work/bob/.claude/memory/tasks"'
check 'cmp "$work/ada/.claude/memory/task-index.json" "$work/bob/.claude/memory/task-index.json"'
for name in ada bob; do in_checkout "$name" stemmadb memory files validate; done
say "all as expected"
