#!/usr/bin/env bash
# Questions and changes of the plan in .claude/memory/: source this file, then call:
#
#   get_parent ID, get_children ID, get_leaf_tasks    from task-index.json as it is
#   find_next_available_task                          the first pending task whose dependencies are done; else return 1
#   calculate_rollup ID                               sets a parent's status from its children, and prints it
#   propagate_status_up ID                            the same for every ancestor of a task
#   start_task ID                                     a leaf whose dependencies are done is in progress from now on
#
# Each returns 1 with "ERROR: ..." on stderr, and has changed nothing then.

_wbs_lib=${BASH_SOURCE[0]%/*}
[[ $_wbs_lib == "${BASH_SOURCE[0]}" ]] && _wbs_lib=.
# shellcheck source=memory.sh
. "$_wbs_lib/memory.sh" || return 1

# jq definitions that all our programs share.
_wbs_defs='
def fail($text): "ERROR: \($text)\n" | halt_error(1);
def order: split(".") | map(tonumber? // 0);
def plan: if length == 1 then .[0] else null end | if (type == "object") and ((.tasks | type) == "array") and all(.tasks[]; type == "object") then .
  else fail("task-index.json is not an index. Run memory-rebuild-index.sh.") end;
def entry($id): first((.tasks[] | select(.id == $id)), fail("There is no task \($id) in task-index.json."));
def kids: if (.children | type) == "array" then .children else [] end;
def deps: if (.dependencies | type) == "array" then .dependencies else [] end;
def rolled: if length == 0 then "pending"
  elif all(.[]; . == "done") then "done" elif any(.[]; . == "done") then "in-progress" else "pending" end;
def status_of($id): entry($id) as $one | ($one | kids) as $kids
  | if ($kids | length) == 0 then $one.status
    else [.tasks[] | select(.id as $i | $kids | index([$i]) | . != null) | .status] | rolled end;
def leaves($id): [.tasks[] | select((.id | startswith($id + ".")) and (kids | length) == 0)];
def progress_of($id): leaves($id) as $all
  | {completed: ($all | map(select(.status == "done")) | length), total: ($all | length)};
def open_deps($one): [.tasks[] | select(.status == "done") | .id] as $done | ($one | deps) - $done;
'

# Answers a question about the index: arguments are those of jq, the last one is the program.
_wbs_ask() {
  [[ -f $root/task-index.json && ! -L $root/task-index.json ]] ||
    _memory_die "There is no .claude/memory/task-index.json. Run memory-rebuild-index.sh."
  _memory_jq -rs "${@:1:$#-1}" "$_wbs_defs plan | ${*: -1}" <"$root/task-index.json"
  case $? in
    0) ;;
    1) exit 1 ;; # `fail` has said why
    *) _memory_die "task-index.json cannot be read. Run memory-rebuild-index.sh." ;;
  esac
}

_wbs_begin() {
  _memory_begin
  local needed=$1
  shift
  (($# == needed)) || _memory_die "This function needs $needed argument(s), not $#."
  _memory_enter_root
}

get_parent() (
  _wbs_begin 1 "$@"
  _wbs_ask --arg id "$1" 'entry($id).parent // empty'
)

get_children() (
  _wbs_begin 1 "$@"
  _wbs_ask --arg id "$1" 'entry($id) | kids[]'
)

get_leaf_tasks() (
  _wbs_begin 0 "$@"
  _wbs_ask '.tasks[] | select(kids | length == 0) | .id'
)

find_next_available_task() (
  _wbs_begin 0 "$@"
  next=$(_wbs_ask '. as $plan | [.tasks[] | select(.type == "task" and .status == "pending" and (kids | length) == 0)
    | select(. as $one | $plan | open_deps($one) == [])] | sort_by(.id | order) | .[0].id // empty') || exit 1
  [[ -n $next ]] && printf '%s\n' "$next"
)

# With the lock held: sets fields of tasks/ID.json, if it is there, and of its entry in the index. Entities come first:
# the index can be made again from them. $2 is an object of fields for both, $3 of fields for the index alone.
_wbs_set() {
  if [[ -f $root/tasks/$1.json ]]; then
    cd -P -- "$root/tasks" && [[ $PWD == "$root" || $PWD == "$root"/* ]] || _memory_die "tasks/ leads out of .claude/memory/."
    name=$1.json
    [[ ! -L $name ]] || _memory_die "tasks/$name is a symlink."
    _memory_replace --argjson fields "$2" '. + $fields'
  fi
  cd -P -- "$root" || exit 1
  name=task-index.json
  _memory_replace --arg id "$1" --argjson both "$2" --argjson more "$3" \
    '(($both + $more) | {status, progress} | with_entries(select(.value != null))) as $fields
     | .tasks |= map(if .id == $id then . + $fields else . end)'
}

_wbs_roll_up() {
  local fields status
  fields=$(_wbs_ask --arg id "$1" 'status_of($id) as $status | if (entry($id) | kids | length) == 0 then
    "\($status) {} {}" else "\($status) \({status: $status} | tojson) \({progress: progress_of($id)} | tojson)" end') || exit 1
  read -r status both more <<<"$fields"
  [[ $both == '{}' ]] || _wbs_set "$1" "$both" "$more"
  printf '%s\n' "$status"
}

calculate_rollup() (
  _wbs_begin 1 "$@"
  _memory_lock
  _wbs_roll_up "$1"
)

_wbs_roll_up_ancestors() {
  local above steps
  above=$(_wbs_ask --arg id "$1" 'entry($id).parent // empty') || exit 1
  for steps in 1 2 3; do
    [[ -n $above ]] || break
    _wbs_roll_up "$above" >/dev/null
    above=$(_wbs_ask --arg id "$above" 'entry($id).parent // empty') || exit 1
  done
}

propagate_status_up() (
  _wbs_begin 1 "$@"
  _memory_lock
  _wbs_roll_up_ancestors "$1"
)

start_task() (
  _wbs_begin 1 "$@"
  _memory_lock
  _wbs_ask --arg id "$1" 'entry($id) as $one | open_deps($one) as $open
    | if ($one | kids | length) > 0 then fail("\($id) is not a leaf: start one of its children.")
      elif $one.status == "done" then fail("\($id) is done already.")
      elif $open != [] then fail("\($id) is blocked by \($open | join(", ")).") else empty end' || exit 1
  now=$(TZ=UTC printf '%(%Y-%m-%dT%H:%M:%SZ)T' -1)
  _wbs_set "$1" "{\"status\":\"in-progress\",\"startedAt\":\"$now\"}" '{}'
  _wbs_roll_up_ancestors "$1"
)
