#!/usr/bin/env bash
# A hook for SubagentStop: finishes the tasks that the agent has in progress, or says why they are not finished.
#
# Reads the hook's JSON on stdin; with none, or without an agent in it, every task in progress counts. A task is finished
# when all its tests pass and all its deliverables exist. Then it is done, with completedAt and validationResults.
# Exit 0, or 2 with the reasons on stderr, which makes the agent go on.
#
#   subagent-validation.sh ID...     finishes these tasks and reads nothing from stdin; exit 1 with the reasons
#
# Only a command whose exact text is a line of .claude/memory/.stemma/allowed-tests runs, in the project, for at most
# 10 minutes, without the secrets of the store. A person adds it: stemmadb memory files allow 'npm test'

# shellcheck source=wbs-helpers.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/wbs-helpers.sh" || exit 1

TEST_SECONDS_MAX=600

_hook_say() {
  printf 'ERROR: %s\n' "$1" >&2
}

# Sets `lines` to the texts of the list $2 in tasks/$1.json, and fails if one of them is not one line.
_hook_texts() {
  mapfile -t lines < <(_memory_jq -r --arg f "$2" '(.[$f] // [])[] | if type == "string" and test("\\A[^\\n\\r\\x00]+\\z") then . else "\u0001" end' \
    <"$root/tasks/$1.json" 2>/dev/null)
  [[ ! " ${lines[*]} " == *$'\001'* ]] || {
    _hook_say "$1: $2 has an entry that is not one line of text."
    return 1
  }
}

# Every test must be allowed before the first one runs; 3 if one is not.
_hook_tests_are_allowed() {
  local line verdict=0
  for line in "${lines[@]}"; do
    [[ -f $root/.stemma/allowed-tests && ! -L $root/.stemma/allowed-tests ]] &&
      grep -Fxq -e "$line" -- "$root/.stemma/allowed-tests" && continue
    _hook_say "$1: nobody has allowed the test: $line"
    verdict=3
  done
  ((verdict == 0)) || _hook_say "$1: nothing was run. A person can allow it: stemmadb memory files allow 'COMMAND'"
  return "$verdict"
}

_hook_tests_pass() {
  local line log status verdict=0 variable
  log=$(mktemp) || return 1
  for line in "${lines[@]}"; do
    printf '%s: running: %s\n' "$1" "$line" >&2
    (
      for variable in AGENT_MEMORY_SECRET "${!STEMMADB_@}"; do unset "$variable"; done
      unset LC_ALL
      cd -- "$project" && exec timeout -k 10 "$TEST_SECONDS_MAX" bash -c "$line"
    ) </dev/null >"$log" 2>&1
    status=$?
    ((status == 0)) && continue
    verdict=1
    ((status == 124)) && _hook_say "$1: the test took over $TEST_SECONDS_MAX seconds: $line" || _hook_say "$1: the test failed with $status: $line"
    tail -c 2000 -- "$log" >&2
  done
  rm -f -- "$log"
  return "$verdict"
}

_hook_deliverables_exist() {
  local line real inside verdict=0
  inside=$(cd -P -- "$project" && pwd -P) || return 1
  for line in "${lines[@]}"; do
    real=$(realpath -e -- "$inside/$line" 2>/dev/null)
    if [[ $line == /* || /$line/ == */../* || (-n $real && $real != "$inside"/*) ]]; then
      _hook_say "$1: the deliverable is not inside the project: $line"
    elif [[ -z $real ]]; then
      _hook_say "$1: the deliverable does not exist: $line"
    else
      continue
    fi
    verdict=1
  done
  return "$verdict"
}

_hook_can_finish() {
  _wbs_ask --arg id "$1" 'entry($id) as $one | open_deps($one) as $open
    | if ($one | kids | length) > 0 then fail("\($id) is not a leaf: finish its children.")
      elif $one.status == "done" then fail("\($id) is done already.")
      elif $open != [] then fail("\($id) is blocked by \($open | join(", ")).") else empty end'
}

# Returns 1 if the task is not finished, and 3 if a person has to allow a test first; it has said why.
_hook_finish() {
  local now
  local -a lines
  (_hook_can_finish "$1") || return 1
  [[ $1 != */* && -f $root/tasks/$1.json && ! -L $root/tasks/$1.json ]] || {
    _hook_say "$1: there is no file tasks/$1.json."
    return 1
  }
  _hook_texts "$1" tests && _hook_tests_are_allowed "$1" && _hook_tests_pass "$1" || return
  _hook_texts "$1" deliverables && _hook_deliverables_exist "$1" || return 1
  now=$(TZ=UTC printf '%(%Y-%m-%dT%H:%M:%SZ)T' -1)
  (
    cd -P -- "$root" && _memory_lock
    _wbs_set "$1" "{\"status\":\"done\",\"completedAt\":\"$now\",\"validationResults\":{\"testsPass\":true,\"deliverablesExist\":true}}" '{}'
    _wbs_roll_up_ancestors "$1"
  ) || return 1
  printf '%s is done.\n' "$1" >&2
}

# Prints the tasks in progress of the agent that the hook's JSON $1 names.
_hook_tasks() {
  local agent='' file
  if [[ -n ${1//[[:space:]]/} ]]; then
    agent=$(printf '%s' "$1" | _memory_jq -r 'if type == "object" then
      [.agent_name, .agent_type, .subagent_type, .agent] | map(select(type == "string" and . != "")) | .[0] // ""
      else error("no object") end' 2>/dev/null) || _memory_die "The input of the hook is not a JSON object."
  fi
  [[ -f $root/task-index.json ]] || return 0
  while IFS= read -r file; do
    [[ -f $root/tasks/$file.json ]] || continue
    if [[ -z $agent ]] || _memory_jq -e --arg agent "$agent" '.agent == $agent' <"$root/tasks/$file.json" >/dev/null 2>&1; then
      printf '%s\n' "$file"
    fi
  done < <(_wbs_ask '[.tasks[] | select(.status == "in-progress" and (kids | length) == 0)] | sort_by(.id | order) | .[].id')
}

_hook_main() (
  local refused=1 input='' worst=0 needs_person=0 id
  local -a tasks
  _memory_begin
  _memory_enter_root
  command -v jq >/dev/null || _memory_die "jq is missing. Install it."
  if (($# > 0)); then
    tasks=("$@")
  else
    refused=2
    [[ -t 0 ]] || IFS= read -r -d '' input
    tasks=$(_hook_tasks "$input") || exit 1
    mapfile -t tasks <<<"$tasks"
  fi
  for id in "${tasks[@]}"; do
    [[ -n $id ]] || continue
    _hook_finish "$id"
    case $? in
      0) ;;
      3) needs_person=1 ;;
      *) worst=$refused ;;
    esac
  done
  ((needs_person && worst == 0)) || exit "$worst"
  # An agent that was sent back already can do no more about a test that only a person may allow: it may stop.
  if [[ $input == *[![:space:]]* ]] && printf '%s' "$input" | _memory_jq -e '.stop_hook_active == true' >/dev/null 2>&1; then
    exit 0
  fi
  exit "$refused"
)

_hook_main "$@"
