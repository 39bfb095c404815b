#!/usr/bin/env bash
# Checks every invariant of the plan in .claude/memory/ and names all that is wrong at once: one line for each finding
# on stderr, exit 1. Changes nothing. memory-rebuild-index.sh sources this file for its rules.

# shellcheck source=wbs-helpers.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/wbs-helpers.sh" || exit 1

# Findings are {blocks, text}. One that blocks is a contradiction: no index can be made of such entities.
_validate_defs='
def finding($blocks; $text): {blocks: $blocks, text: $text};
def is_id: type == "string" and test("\\A[1-9][0-9]{0,8}(\\.[1-9][0-9]{0,8}){0,2}\\z");
def depth: split(".") | length;
def above: split(".") | if length == 1 then null else .[:-1] | join(".") end;
def fitting: ["epic", "feature", "task"][depth - 1];
def texts: type == "array" and all(.[]; type == "string");
def twice: group_by(.) | map(select(length > 1) | .[0]);
def is_time: type == "string" and test("\\A[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?Z\\z");
def own_deps: if (.dependencies | texts) then .dependencies else [] end;

def shape($at): .id as $id
  | (if .type != ($id | fitting) then finding(true; "\($at)type must be \($id | fitting) at depth \($id | depth).") else empty end),
    (if .status | IN("pending", "in-progress", "done") then empty
     else finding(true; "\($at)status must be pending, in-progress or done.") end),
    (if has("parent") and .parent != ($id | above) then finding(true; "\($at)parent must be \($id | above | tojson).") else empty end),
    (("children", "dependencies") as $f | if has($f) and (.[$f] | texts | not)
     then finding(true; "\($at)\($f) must be a list of task ids.") else empty end),
    (("deliverables", "tests", "acceptanceCriteria") as $f | if has($f) and (.[$f] | texts | not)
     then finding($f == "deliverables"; "\($at)\($f) must be a list of texts.") else empty end),
    (("startedAt", "completedAt") as $f | if .[$f] != null and (.[$f] | is_time | not)
     then finding(false; "\($at)\($f) must be null or a UTC time such as 2025-10-01T10:30:00Z.") else empty end),
    (if (.startedAt | is_time) and (.completedAt | is_time) and .completedAt[:19] < .startedAt[:19]
     then finding(false; "\($at)completedAt is before startedAt.") else empty end);

def relations($at; $all; $below): .id as $id | ($below[$id] // []) as $below_it
  | (($id | above) as $up | if $up != null and ($all[$up] | not) then finding(true; "\($at)its parent \($up) does not exist.") else empty end),
    (if (.children | texts) then .children as $given
       | (($given - $below_it | unique)[] | finding(true; "\($at)children lists \(tojson), which is no child of it.")),
         ($given | twice[] | finding(true; "\($at)children lists \(tojson) twice.")),
         (($below_it - $given)[] | finding(false; "\($at)children lacks \(tojson)."))
     else empty end),
    (own_deps | unique[] | if . == $id then finding(true; "\($at)depends on itself.")
     elif $all[.] then empty else finding(true; "\($at)depends on \(tojson), which does not exist.") end),
    (own_deps | twice[] | finding(true; "\($at)lists the dependency \(tojson) twice.")),
    (if $below_it == [] then empty else ([$below_it[] | $all[.].status] | rolled) as $should
     | if .status == $should then empty else finding(false; "\($at)status must be \($should), as its children say.") end end);

# Takes away tasks that wait for nothing that is left, or that nothing left waits for, until only circles stay.
def circles: (map({key: .id, value: [.id as $id | own_deps[] | select(. != $id)]}) | from_entries) as $deps
  | def step: . as $left | (reduce (.[] | $deps[.][]) as $d ({}; .[$d] = true)) as $wanted
      | (reduce .[] as $id ({}; .[$id] = true)) as $here
      | map(select($wanted[.] and any($deps[.][]; $here[.])));
    [keys[] as $i | .[$i].id] | {left: ., before: -1}
  | until((.left | length) == .before; {before: (.left | length), left: (.left | step)}) | .left;

# Findings of a list of records with valid, different ids; `at(id)` is what a finding begins with.
def plan_findings(at): (map({key: .id, value: .}) | from_entries) as $all
  | (reduce (.[] | select(.id | above)) as $one ({}; .[$one.id | above] += [$one.id]) | map_values(sort_by(order))) as $below
  | (.[] | (.id | at) as $at | shape($at), relations($at; $all; $below)),
    (circles[] | at as $at | finding(true; "\($at)is in a circle of dependencies."));

def entities: [.[] | select((.bad | not) and (.file | rtrimstr(".json") | is_id) and (.value | type) == "object")
  | select(.value.id == (.file | rtrimstr(".json"))) | .value] | sort_by(.id | order);

def entity_findings: (.[] | .file as $f | "tasks/\($f): " as $at | ($f | rtrimstr(".json")) as $id
    | if .bad then finding(true; "\($at)is not one JSON value.")
      elif ($id | is_id | not) then finding(true; "\($at)the name must be a task id such as 1.json, 1.2.json or 1.2.3.json.")
      elif (.value | type) != "object" then finding(true; "\($at)must be an object.")
      elif .value.id != $id then finding(true; "\($at)id must be \($id | tojson), as the name says.") else empty end),
  (entities | plan_findings("tasks/\(.).json: "));

def against($entities): "task-index.json: " as $at | (map({key: .id, value: .}) | from_entries) as $listed
  | ($entities | map({key: .id, value: .}) | from_entries) as $files
  | (.[] | select($files[.id] | not) | finding(false; "\($at)\(.id): has no file tasks/\(.id).json.")),
    ($entities[] | .id as $id | $listed[$id] as $entry
     | if $entry == null then finding(false; "\($at)lacks \($id).")
       else ("type", "status", "dependencies", "deliverables") as $f
         | if ($entry[$f] // (if $f == "dependencies" then [] else null end)) == (.[$f] // (if $f == "dependencies" then [] else null end))
           then empty else finding(false; "\($at)\($id): \($f) is not that of tasks/\($id).json.") end end);

def index_findings($entities): "task-index.json: " as $at
  | if .bad then finding(false; "\($at)is not one JSON value.")
    elif .missing then finding(false; "\($at)does not exist. Rebuild it.")
    else .value | if type != "object" or (.tasks | type) != "array" or any(.tasks[]; type != "object")
      then finding(false; "\($at)must be an object with a list of tasks.")
      else (if .version | type == "string" and test("\\A[0-9]+\\.[0-9]+\\.[0-9]+([-+][0-9A-Za-z.+-]+)?\\z") then empty
            else finding(false; "\($at)version must be a version such as 1.0.0.") end),
        (.tasks | map(.id | select(is_id)) | twice[] | finding(false; "\($at)\(.) is listed twice.")),
        (if all(.tasks[]; .id | is_id) then empty else finding(false; "\($at)has an id that is no task id such as 1.2.3.") end),
        (.tasks | map(select(.id | is_id)) | unique_by(.id)
          | (.[] | .id as $id | ("parent", "children", "dependencies") as $f
             | if has($f) then empty else finding(false; "\($at)\($id): \($f) is missing.") end),
            plan_findings("task-index.json: \(.): "),
            (if $entities == [] then empty else against($entities) end)) end end;
'

# The index that valid entities give: a list of entities in numeric order becomes the file's value.
_index_defs='
def index_of($version): . as $list | (map({key: .id, value: .}) | from_entries) as $all
  | (reduce (.[] | select(.id | above)) as $one ({}; .[$one.id | above] += [$one.id])) as $below
  | def status: if $below[.] then [$below[.][] | status] | rolled else $all[.].status end;
    def leaf_ids: if $below[.] then $below[.][] | leaf_ids else . end;
    def progress: [leaf_ids | $all[.].status] | {completed: map(select(. == "done")) | length, total: length};
    {version: $version, tasks: [.[] | .id as $id
      | {id, type, status: ($id | status), parent: ($id | above), children: ($below[$id] // []), dependencies: own_deps}
        + (if $below[$id] then {progress: ($id | progress)} else {} end)
        + (if has("deliverables") then {deliverables} else {} end)]};
'

# Findings that a look at the files gives, as JSON lines, and in `readable` the files that can be parsed.
_validate_look() {
  local file head shown
  readable=()
  for file in task-index.json tasks/*.json; do
    [[ -e $file || -L $file ]] || continue
    shown=${file//[[:cntrl:]]/?}
    if [[ -L $file ]]; then
      looked+=("1$shown: is a symlink.")
    elif [[ ! -f $file || ! -r $file ]]; then
      looked+=("1$shown: is not a file that can be read.")
    elif [[ $shown != "$file" ]]; then
      looked+=("1$shown: the name must be a task id such as 1.json, 1.2.json or 1.2.3.json.")
    else
      readable+=("$file")
      IFS= read -r -N 3 head <"$file"
      [[ $head != $'\xef\xbb\xbf' ]] || looked+=("0$file: begins with a byte order mark.")
    fi
  done
  if ((${#readable[@]})); then
    while IFS= read -r file; do looked+=("0$file: has CRLF line endings. Use LF."); done < <(grep -lF $'\r' -- "${readable[@]}")
  fi
}

# Prints a list of {file, value} or {file, bad} for the readable files.
_validate_load() {
  if ((${#readable[@]} == 0)); then
    printf '[]'
    return
  fi
  _memory_jq -n '[inputs | {file: input_filename, value: .}] | group_by(.file)
    | map(if length == 1 then .[0] else {file: .[0].file, bad: true} end)' -- "${readable[@]}" 2>/dev/null && return
  # One of them is not JSON: each is parsed by itself, from one stream in which a control character begins a file.
  local file
  local -a content
  for file in "${readable[@]}"; do
    mapfile -d '' -n 2 content <"$file"
    ((${#content[@]} < 2)) || content=('{') # a NUL is in no JSON
    printf '\036%s\n%s' "$file" "${content[0]//$'\036'/$'\001'}"
  done | _memory_jq -Rs 'split("\u001e")[1:] | map(split("\n") | {file: .[0]} +
    (.[1:] | join("\n") | try {value: fromjson} catch {bad: true}))'
}

# Runs a jq program on {index, entities, looked} of the plan. Arguments are those of jq, the last one is the program.
_validate_run() {
  local -a looked=() readable=()
  command -v jq >/dev/null || _memory_die "jq is missing. Install it."
  MEMORY_SECONDS_MAX=60
  _validate_look
  _validate_load | _memory_jq -r --rawfile names <(printf '%s\n' "${readable[@]}") --rawfile looked <(printf '%s\n' "${looked[@]}") \
    "${@:1:$#-1}" "$_wbs_defs $_validate_defs $_index_defs"'
    def lines: split("\n") | map(select(. != ""));
    . as $loaded | (map(.file) as $seen | ($names | lines) - $seen | map({file: ., bad: true})) as $empty
    | ($loaded + $empty) as $all
    | {index: ([$all[] | select(.file == "task-index.json")] | .[0] // {missing: true}),
       files: [$all[] | select(.file != "task-index.json") | .file |= ltrimstr("tasks/")],
       looked: ($looked | lines | map(finding(.[:1] == "1"; .[1:])))}
    | (.files | entities) as $entities | '"${*: -1}"
}

_validate_main() (
  _memory_begin
  _memory_enter_root
  findings=$(_validate_run '
    [.looked[], (.files | entity_findings), (.index | index_findings($entities))] | map(.text) | unique
    | if . == [] then "\($entities | length)" else "", .[] end') || _memory_die "The plan could not be checked."
  if [[ $findings == [0-9]* ]]; then
    printf 'OK: %s tasks, nothing is wrong.\n' "$findings"
    return 0
  fi
  while IFS= read -r line; do [[ -z $line ]] || printf 'ERROR: %s\n' "$line"; done <<<"$findings" >&2
  return 1
)

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  _validate_main
  exit
fi
