#!/usr/bin/env bash
# Writes .claude/memory/task-index.json again from tasks/*.json alone: the same entities give the same bytes. Only the
# index's `version` is kept. Entities that contradict each other are named on stderr; then nothing changes, exit 1.

# shellcheck source=memory-validate.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/memory-validate.sh" || exit 1

_rebuild_main() (
  _memory_begin
  _memory_enter_root
  _memory_lock
  [[ ! -L task-index.json ]] || _memory_die "task-index.json is a symlink."
  shopt -s nullglob
  files=(tasks/*.json)
  shopt -u nullglob
  if ((${#files[@]} == 0)) && [[ -e task-index.json ]]; then
    _memory_die "There are no files in tasks/: the index stays as it is. 'stemmadb memory files sync' makes entities of it."
  fi
  name=task-index.json
  _memory_clear_tmp
  { : >"./$name.tmp"; } 2>/dev/null || _memory_die "Cannot write $name.tmp. The old file is as it was."
  _validate_run '([.looked[], (.files | entity_findings) | select(.blocks) | .text | select(startswith("tasks/"))] | unique) as $bad
    | .index.value.version? as $version
    | if $bad == [] then $entities | index_of(if $version | type == "string" then $version else "1.0.0" end)
      else ($bad | map("ERROR: \(.)\n") | add | halt_error(1)) end' >>"./$name.tmp" ||
    _memory_give_up "The index was not rebuilt; it is as it was."
  _memory_publish
)

_rebuild_main
