#!/usr/bin/env bash
# Reads and changes the files under .claude/memory/ safely. Source this file, then call:
#
#   memory_write FILE CONTENT              writes CONTENT byte for byte; a .json file must be one JSON value
#   memory_read FILE                       prints the bytes
#   memory_update_json FILE JQ_EXPRESSION  replaces the file by what jq makes of it; nobody else can write in between
#
# FILE begins with .claude/memory/ and is relative to the project: $CLAUDE_PROJECT_DIR, else the directory above this
# script that has .claude in it. Each function returns 1 with "ERROR: ..." on stderr, and has changed nothing then.
# Needs bash, jq, and flock and timeout of the system. Every function runs in a subshell: your shell stays as it is.

MEMORY_SECONDS_MAX=10

_memory_lib=${BASH_SOURCE[0]%/*}
[[ $_memory_lib == "${BASH_SOURCE[0]}" ]] && _memory_lib=.
_memory_lib=$(unset CDPATH && cd -- "$_memory_lib" && pwd)

_memory_die() {
  printf 'ERROR: %s\n' "$1" >&2
  exit 1
}

# The first thing in every subshell: nothing that the caller's shell has set may change what our code means.
_memory_begin() {
  set +e +u +f +C
  set +o pipefail
  shopt -u nocasematch nullglob failglob
  unset CDPATH
  IFS=$' \t\n'
  LC_ALL=C
}

# Sets `project`.
_memory_find_project() {
  if [[ -n ${CLAUDE_PROJECT_DIR:-} ]]; then
    [[ -d $CLAUDE_PROJECT_DIR ]] || _memory_die "CLAUDE_PROJECT_DIR is not a directory: $(printf %q "$CLAUDE_PROJECT_DIR")."
    project=$CLAUDE_PROJECT_DIR
    return
  fi
  project=$_memory_lib
  while [[ -n $project && ! -d $project/.claude ]]; do project=${project%/*}; done
  [[ -n $project ]] && return
  project=$PWD # the scripts are elsewhere, for example behind a symlink
  while [[ -n $project && ! -d $project/.claude/memory ]]; do project=${project%/*}; done
  [[ -n $project ]] || _memory_die "There is no .claude directory above. Set CLAUDE_PROJECT_DIR to your project."
}

# Goes into .claude/memory, which may be a symlink, and sets `project` and `root`. With "make" it is made if missing.
_memory_enter_root() {
  _memory_find_project
  if [[ ${1:-} == make && ! -d $project/.claude/memory ]]; then
    mkdir -p -- "$project/.claude/memory" 2>/dev/null || _memory_die "Cannot make .claude/memory in the project."
  fi
  cd -P -- "$project/.claude/memory" 2>/dev/null || _memory_die "There is no directory .claude/memory in the project."
  root=$PWD
}

# One writer at a time. The lock is on the directory itself, so that nothing is left behind, and ends with the shell.
_memory_lock() {
  command -v flock >/dev/null || _memory_die "flock is missing. Install it (Debian: util-linux)."
  exec {lock}<. || _memory_die "Cannot open .claude/memory."
  flock -w 60 "$lock" || _memory_die "Another writer has held the lock of .claude/memory for 60 seconds."
}

# What can be said about a path without looking at the disk.
_memory_check_path() {
  local shown
  printf -v shown %q "$1"
  [[ $1 == .claude/memory/?* ]] || _memory_die "The path must begin with .claude/memory/: $shown."
  [[ $1 != *..* ]] || _memory_die "The path must not have '..' in it: $shown."
  [[ $1 != *[[:cntrl:]]* && $1 != *\\* && ! $1 =~ %(2[eEfF]|5[cC]|00) ]] ||
    _memory_die "The path must not have control characters, backslashes or encoded dots and slashes in it: $shown."
  [[ $1 =~ /[^/]+\.(json|md|txt|yaml|yml)$ ]] || _memory_die "The name must end with .json, .md, .txt, .yaml or .yml: $shown."
}

# Checks a path, goes into its directory and sets `name`. The second argument is read, change, or create.
_memory_enter() {
  local rest part place
  local -a parts
  _memory_check_path "$1"
  case $2 in
    read) _memory_enter_root ;;
    change) _memory_enter_root && _memory_lock ;;
    create) _memory_enter_root make && _memory_lock ;;
  esac
  rest=${1#.claude/memory/}
  name=${rest##*/}
  IFS=/ read -ra parts <<<"${rest%"$name"}"
  for part in "${parts[@]}"; do
    [[ -n $part ]] || continue
    if [[ $2 == create && ! -e $part && ! -L $part ]]; then
      _memory_check_place "$1" "$2" "$PWD/$part"
      mkdir -- "$part" 2>/dev/null || _memory_die "Cannot make the directory of $1."
    fi
    cd -P -- "./$part" 2>/dev/null || _memory_die "There is no file $1."
    _memory_check_place "$1" "$2" "$PWD"
  done
  [[ ! -L $name ]] || _memory_die "$1 is a symlink. Use the path of the file itself."
}

# Whether the directory $3, to which the path $1 has led, lies inside the memory and may be used as $2 says.
_memory_check_place() {
  [[ $3 == "$root" || $3 == "$root"/* ]] || _memory_die "$1 leads out of .claude/memory/ by a symlink."
  [[ $2 != read ]] || return 0
  case ${3#"$root"}/ in
    /lib/* | /.stemma/*) _memory_die "lib/ and .stemma/ are not for writing: $1." ;;
  esac
}

# jq sees PATH and nothing else of the environment, no file but its input, and has 10 seconds.
_memory_jq() {
  command -v jq >/dev/null || _memory_die "jq is missing. Install it."
  if [[ -n ${lock:-} ]]; then
    env -i PATH="$PATH" timeout "$MEMORY_SECONDS_MAX" jq "$@" {lock}<&-
  else
    env -i PATH="$PATH" timeout "$MEMORY_SECONDS_MAX" jq "$@"
  fi
}

# Removes what a killed writer has left, so that the file is a new one: never one that a symlink leads to.
_memory_clear_tmp() {
  if [[ -e $name.tmp || -L $name.tmp ]]; then
    rm -f -- "./$name.tmp" 2>/dev/null || _memory_die "Cannot remove $name.tmp."
  fi
  [[ ! -d $name ]] || _memory_die "$name is a directory."
  set -C # from here on `>` refuses a file that is there
}

_memory_give_up() {
  rm -f -- "./$name.tmp" 2>/dev/null
  _memory_die "$1"
}

# The last step: the file is the old one before, the new one after, and never half of either.
_memory_publish() {
  mv -f -- "./$name.tmp" "./$name" 2>/dev/null || _memory_give_up "Cannot replace $name. The old file is as it was."
  set +C
  if [[ -d $root/.stemma && ! -L $root/.stemma && ! -L $root/.stemma/dirty ]]; then
    : >>"$root/.stemma/dirty"
  fi 2>/dev/null
  return 0
}

# Sets `values` to how many values jq has printed: only a value begins a line in the first column with no ] or }.
_memory_count_values() {
  local line
  local -a lines
  mapfile -t -n 200 lines <"./$name.tmp"
  values=0
  if ((${#lines[@]} < 200)); then # without another program, which would take longer than all of this
    for line in "${lines[@]}"; do [[ $line == [^\]\ }]* ]] && values=$((values + 1)); done
  else
    values=$(grep -c '^[^] }]' "./$name.tmp")
  fi
}

# In the file's directory, with the lock held: replaces $name by what jq makes of it. Arguments are those of jq.
_memory_replace() {
  local status values
  [[ -f $name ]] || _memory_die "There is no file $name."
  _memory_clear_tmp
  ulimit -S -f 1048576 2>/dev/null # an expression that prints for ever ends at 1 GiB
  { : >"./$name.tmp"; } 2>/dev/null || _memory_die "Cannot write $name.tmp. The old file is as it was."
  _memory_jq "$@" <"./$name" >>"./$name.tmp"
  status=$?
  case $status in
    0) ;;
    124) _memory_give_up "jq took over $MEMORY_SECONDS_MAX seconds. $name is as it was." ;;
    *) _memory_give_up "jq failed. $name is as it was." ;;
  esac
  _memory_count_values
  ((values == 1)) || _memory_give_up "The expression must give exactly one value, not $values. $name is as it was."
  _memory_publish
}

_memory_is_one_value() {
  [[ $1 != $'\xef\xbb\xbf'* ]] || _memory_die "The content begins with a byte order mark. Leave it out."
  [[ $(printf '%s' "$1" | _memory_jq -n '[inputs] | length' 2>/dev/null) == 1 ]]
}

memory_write() (
  _memory_begin
  (($# == 2)) || _memory_die "memory_write needs two arguments: FILE and CONTENT."
  _memory_check_path "$1"
  if [[ $1 == *.json ]]; then
    command -v jq >/dev/null || _memory_die "jq is missing. Install it."
    _memory_is_one_value "$2" || _memory_die "The content is not one JSON value: $1 is as it was."
  fi
  _memory_enter "$1" create
  _memory_clear_tmp
  printf '%s' "$2" 2>/dev/null >"./$name.tmp" || _memory_give_up "Cannot write $1. What was there is as it was."
  IFS= read -r -d '' written <"./$name.tmp"
  [[ $written == "$2" ]] || _memory_give_up "What was written to $1 is not the content. What was there is as it was."
  _memory_publish
)

memory_read() (
  _memory_begin
  (($# == 1)) || _memory_die "memory_read needs one argument: FILE."
  _memory_enter "$1" read
  [[ -f $name ]] || _memory_die "There is no file $1."
  cat -- "./$name" || _memory_die "Cannot read $1."
)

memory_update_json() (
  _memory_begin
  (($# == 2)) || _memory_die "memory_update_json needs two arguments: FILE and JQ_EXPRESSION."
  [[ $1 == *.json ]] || { _memory_check_path "$1" && _memory_die "memory_update_json changes .json files alone: $1."; }
  command -v jq >/dev/null || _memory_die "jq is missing. Install it."
  _memory_enter "$1" change
  _memory_replace " $2" # the space keeps an expression such as -.n from being an option
)
