"""The commands of the client against a real server: what they say to people and to programs, and how they exit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_homes import Home, timeless
from served import Process

SPEC = {"title": "write the spec", "done": False}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    made = Process(tmp_path_factory.mktemp("served") / "data")
    made.start()
    yield made
    assert made.stop() == 0


@pytest.fixture
def ada(server: Process, tmp_path: Path) -> Home:
    """The owner of a space with two todos at version 4, the first of which was patched."""
    home = Home(tmp_path / "ada", server.address, space="todo")
    assert home("space", "create", "todo").code == 0
    assert home("set", "urn:todo:1", json.dumps(SPEC), "--note", "first things first").code == 0
    assert home("set", "urn:todo:2", '{"title": "cook"}').code == 0
    assert home("set", "urn:todo:1", '[{"op": "replace", "path": "/done", "value": true}]', "--patch").code == 0
    return home


def did_of(home: Home, *, space: bool) -> str:
    told = home("status", "--json").json
    return str(told["space"]["did"] if space else told["identity"])


@pytest.fixture
def bob(ada: Home, server: Process, tmp_path: Path) -> Home:
    """Somebody else, who knows the space by its DID and may do nothing there."""
    return Home(tmp_path / "bob", server.address, space=did_of(ada, space=True))


# ---------------------------------------------------------------- reading


def test_get_prints_the_value_as_json_and_nothing_else(ada: Home) -> None:
    done = ada("get", "urn:todo:1")
    assert (done.code, json.loads(done.out), done.err) == (0, SPEC | {"done": True}, "")
    part = ada("get", "urn:todo:1", "--path", "/title")
    assert (part.code, part.out) == (0, '"write the spec"\n')
    assert ada("get", "urn:todo:1", "/title") == part  # as in the console
    assert ada("get", "urn:todo:1", "/title", "--path", "/done").code == 2
    told = ada("get", "urn:todo:1", "--json").json
    assert told == {"id": "urn:todo:1", "path": "", "branch": "main", "version": 4, "value": SPEC | {"done": True}}


@pytest.mark.parametrize(("moment", "is_done"), [("2", False), ("3", False), ("4", True), ("head", True)])
def test_get_tells_what_it_was_at_a_version(ada: Home, moment: str, is_done: bool) -> None:
    assert ada("get", "urn:todo:1", "--at", moment, "--json").json["value"]["done"] is is_done


def test_get_tells_what_it_was_at_a_tag_and_at_a_time(ada: Home) -> None:
    assert ada("tag", "create", "before", "--at", "2").code == 0
    assert ada("get", "urn:todo:1", "--at", "tag:before", "--json").json["value"] == SPEC
    assert ada("get", "urn:todo:1", "--at", "0 seconds ago", "--json").json["value"]["done"] is True
    assert ada("get", "urn:todo:1", "--at", "yesterday").code == 1
    time = ada("log", "--json").json["entries"][2]["time"]
    assert ada("get", "urn:todo:1", "--at", time, "--json").json["version"] == 2


def test_what_is_not_there_is_no_and_a_null_is_a_value(ada: Home) -> None:
    done = ada("get", "urn:todo:9")
    assert (done.code, done.out) == (1, "")
    assert done.err == "Error: 'urn:todo:9' is not there, on branch 'main' at version 4.\n"
    told = ada("get", "urn:todo:9", "--json")
    assert (told.code, told.error, told.json["version"]) == (1, "not_found", 4)
    assert "has nothing at '/nowhere'" in ada("get", "urn:todo:1", "--path", "/nowhere").err
    assert ada("get", "urn:todo:1", "--at", "1").code == 1
    ada("set", "urn:null", "null")
    assert (ada("get", "urn:null").code, ada("get", "urn:null").out) == (0, "null\n")


@pytest.mark.parametrize(
    "words",
    [
        ("get", "urn:nothing"),
        ("get", "urn:todo:1", "--at", "99"),
        ("get", "urn:todo:1", "--at", "tag:nothing"),
        ("history", "urn:nothing"),
        ("blame", "urn:nothing"),
        ("blame", "urn:deleted"),
        ("blame", "urn:todo:1", "/nowhere"),
        ("log", "--branch", "nothing"),
        ("diff", "nothing", "head"),
        ("merge", "nothing"),
        ("branch", "delete", "nothing"),
        ("tag", "delete", "nothing"),
        ("delete", "urn:nothing"),
        ("blob", "get", "b3:" + "a" * 52, "-"),
        ("get", "urn:todo:1", "--space", "nothing"),
        ("get", "urn:todo:1", "--identity", "nothing"),
        ("console", "--branch", "nothing"),
    ],
    ids=" ".join,
)
def test_what_is_not_there_exits_with_1_in_every_command(ada: Home, words: tuple[str, ...]) -> None:
    if "urn:deleted" in words:
        ada("set", "urn:deleted", "1")
        ada("delete", "urn:deleted")
    done = ada(*words, stdin=b"")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1


def test_list_shows_what_begins_so(ada: Home) -> None:
    for prefix in ("urn:todo:", "urn:todo:*"):
        done = ada("list", prefix)
        assert (done.code, done.out.splitlines()) == (
            0,
            [
                "ID          VALUE",
                'urn:todo:1  {"title": "write the spec", "done": true}',
                'urn:todo:2  {"title": "cook"}',
            ],
        )
    assert list(ada("list", "urn:todo:", "--at", "2", "--json").json["entities"]) == ["urn:todo:1"]
    nothing = ada("list", "urn:nothing:")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "Nothing is there.\n")
    assert len(ada("list", "--json").json["entities"]) == 3  # the access list is an entity too


def test_query_follows_links_and_nests_them(ada: Home, tmp_path: Path) -> None:
    ada(
        "set",
        "urn:list:1",
        '{"first": {"/": {"link@1": {"id": "urn:todo:1"}}}, "next": {"/": {"link@1": {"id": "urn:x"}}}}',
    )
    schema = {"properties": {"first": {"properties": {"title": {"type": "string"}}}, "next": {"type": "object"}}}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    told = ada("query", "urn:list:*", "--schema", json.dumps(schema), "--json").json
    assert list(told["entities"]) == ["urn:list:1", "urn:todo:1"]
    assert told["roots"] == [{"id": "urn:list:1", "path": ""}]
    nested = ada("query", "urn:list:1", "--schema", f"@{tmp_path / 'schema.json'}", "--nested")
    assert json.loads(nested.out)[0]["first"]["title"] == "write the spec"
    assert ada("query", "urn:nothing:*").err == "Nothing matches.\n"
    assert "urn:todo:2" in ada("query", "urn:todo:*").out


@pytest.mark.rule("QUERY-8", "WATCH-4")
def test_query_and_watch_show_the_first_in_order_and_then_the_next(ada: Home) -> None:
    first = ada("query", "urn:todo:*", "--order", "/title", "--limit", "1", "--json").json
    assert list(first["entities"]) == ["urn:todo:2"]
    assert first["after"] == {"keys": [["cook"]], "id": "urn:todo:2"}
    page = (
        "query",
        "urn:todo:*",
        "--order",
        "/title",
        "--limit",
        "1",
        "--json",
        "--after",
        json.dumps(first["after"]),
    )
    assert list(ada(*page).json["entities"]) == ["urn:todo:1"]
    highest = ada("query", "urn:todo:*", "--order", "-/title", "--json").json
    assert list(highest["entities"]) == ["urn:todo:1", "urn:todo:2"]
    seen = ada("watch", "urn:todo:*", "--order", "-/title", "--limit", "1", "--changes", "1")
    assert "urn:todo:1" in seen.out
    assert "urn:todo:2" not in seen.out
    wrong = ada("query", "urn:todo:*", "--order", "title")
    assert (wrong.code, wrong.err.startswith("Error: ")) == (2, True)
    assert ada("query", "urn:todo:*", "--after", '{"id": 1}').err.startswith("Error: ")


# ---------------------------------------------------------------- writing


def test_set_reads_json_from_a_file_and_from_standard_input(ada: Home, tmp_path: Path) -> None:
    (tmp_path / "value.json").write_text('{"from": "a file"}')
    told = ada("set", "urn:a", f"@{tmp_path / 'value.json'}", "--json")
    assert (told.code, told.json) == (0, {"id": "urn:a", "branch": "main", "version": 5})
    said = ada("set", "urn:b", "-", stdin=b'"a text"')
    assert (said.code, said.out) == (0, "urn:b written: version 6 of main\n")
    assert ada("list", "urn:a", "--json").json["entities"] == {"urn:a": {"from": "a file"}}
    assert ada("get", "urn:b").out == '"a text"\n'


def test_set_can_create_patch_and_overwrite_blindly(ada: Home) -> None:
    again = ada("set", "urn:todo:1", "1", "--create", "--json")
    assert (again.code, again.error) == (4, "already_exists")
    assert ada("set", "urn:new", "1", "--create").code == 0
    assert ada("set", "urn:todo:1", "2", "--blind").code == 0
    counted = ada("set", "urn:new2", '[{"op": "increment", "path": "/n", "by": 1}]', "--patch", "--json")
    assert counted.code == 1
    wrong = ada("set", "urn:todo:2", '{"op": "remove"}', "--patch")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert ada("set", "urn:x", "1", "--create", "--blind").code == 2


def test_delete_takes_it_away_and_revert_brings_it_back(ada: Home) -> None:
    gone = ada("delete", "urn:todo:2", "--note", "done with it")
    assert (gone.code, gone.out) == (0, "urn:todo:2 deleted: version 5 of main\n")
    assert ada("get", "urn:todo:2").code == 1
    dry = ada("revert", "5", "--dry-run")
    assert dry.out.splitlines()[0] == "This would take back 5: 1 write."
    back = ada("revert", "5", "--json")
    assert (back.code, back.json["version"], back.json["reverted"]) == (0, 6, [5])
    assert json.loads(ada("get", "urn:todo:2").out) == {"title": "cook"}
    assert ada("revert").code == 2
    assert ada("revert", "3", "--author", "default").code == 2


def test_a_revert_of_what_others_built_on_is_refused(ada: Home) -> None:
    done = ada("revert", "2", "--json")
    assert (done.code, done.error) == (4, "conflict")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1 "b": 2}', "column 9"),
        ('{"a": 1 "b": 2}', '{"a": 1 >>>"b": 2}'),
        ('{\n  "a": oops\n}', "line 2, column 8"),
        ("hello", "'\"text\"'"),
        ("NaN", "NaN is not a number"),
        ('{"a": 1, "a": 2}', 'the key "a" occurs twice'),
        ("", "column 1"),
        ("[" * 100_000, "nested too deeply"),
        ("@/no/such/file", "'/no/such/file' cannot be read"),
        ("1e999", "finite"),
        (str(2**64), "64 bits"),
    ],
)
def test_json_that_cannot_be_read_is_wrong_use_and_the_place_is_shown(ada: Home, text: str, says: str) -> None:
    done = ada("set", "urn:a", text)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1
    assert says in done.err


def test_standard_input_that_is_not_text_is_told(ada: Home) -> None:
    done = ada("set", "urn:a", "-", stdin=b'"\xff"')
    assert (done.code, done.err.startswith("Error: standard input is not UTF-8, at byte 1.")) == (2, True)


# ---------------------------------------------------------------- the past


def test_a_log_at_80_columns(ada: Home) -> None:
    assert timeless(ada("log", "--until", "4", "--since", "1").out) == (
        "VERSION  TIME                 AUTHOR             FACTS  NOTE\n"
        "      4  2026-11-16 09:00:00  default …abcdefgh      1\n"
        "      3  2026-11-16 09:00:00  default …abcdefgh      1\n"
        "      2  2026-11-16 09:00:00  default …abcdefgh      1  first things first\n"
    )
    facts = timeless(ada("log", "--facts", "--since", "2").out)
    assert facts == (
        "4  2026-11-16 09:00:00  default …abcdefgh  main\n"
        "    patch urn:todo:1  /done = true\n"
        "3  2026-11-16 09:00:00  default …abcdefgh  main\n"
        '    set urn:todo:2  {"title": "cook"}\n'
    )


def test_a_log_is_filtered_and_says_when_there_is_more(ada: Home) -> None:
    def versions(*words: str) -> list[int]:
        return [entry["version"] for entry in ada("log", *words, "--json").json["entries"]]

    assert versions("--author", "default") == [4, 3, 2]
    assert versions("--author", did_of(ada, space=False)) == [4, 3, 2]
    assert versions("--author", did_of(ada, space=True)) == [1]
    assert versions("--prefix", "urn:todo:1") == [4, 2]
    assert versions("--prefix", "urn:todo:*") == [4, 3, 2]
    assert versions("--until", "yesterday") == []
    assert versions("--since", "1 hour ago", "--until", "now") == [4, 3, 2, 1]
    assert versions("--since", "head") == []
    cut = ada("log", "--limit", "2")
    assert len(cut.out.splitlines()) == 3
    assert "Only the newest 2 are shown" in cut.err
    assert ada("log", "--limit", "2", "--json").json["more"] is True
    assert ada("log", "--limit", "4", "--json").json["more"] is False
    assert ada("log", "--author", "nobody").code == 1
    assert ada("log", "--until", "yesterday").err == "There are none.\n"
    patch = ada("log", "--facts", "--limit", "1", "--json").json["entries"][0]["facts"]
    assert patch == [
        {
            "id": "urn:todo:1",
            "kind": "patch",
            "branch": "main",
            "patch": [{"op": "replace", "path": "/done", "value": True}],
        }
    ]


def test_a_history_and_a_blame_at_80_columns(ada: Home) -> None:
    assert timeless(ada("history", "urn:todo:1").out) == (
        "VERSION  TIME                 AUTHOR             CHANGE          NOTE\n"
        "      4  2026-11-16 09:00:00  default …abcdefgh  /done  false\n"
        "                                                 -> true\n"
        '      2  2026-11-16 09:00:00  default …abcdefgh  {"title":       first things\n'
        '                                                 "write the      first\n'
        '                                                 spec", "done":\n'
        "                                                 false}\n"
    )
    blamed = timeless(ada("blame", "urn:todo:1").out).splitlines()
    assert blamed[0] == "PATH    VALUE       VERSION  TIME                 AUTHOR             NOTE"
    assert blamed[1].startswith('/title  "write the        2  2026-11-16 09:00:00  default …abcdefgh  first')
    assert blamed[-1] == "/done   true              4  2026-11-16 09:00:00  default …abcdefgh"
    entries = ada("history", "urn:todo:1", "--at", "3", "--json").json["entries"]
    assert [(entry["version"], entry["value"]) for entry in entries] == [(2, SPEC)]
    assert ada("history", "urn:todo:1", "--limit", "1", "--json").json["more"] is True
    lines = ada("blame", "urn:todo:1", "--path", "/done", "--json").json["lines"]
    assert [(one["path"], one["version"]) for one in lines] == [("/done", 4)]
    for command in ("history", "blame"):
        assert ada(command, "urn:nothing", "--json").error == "not_found"


def test_a_diff_takes_moments_and_branches(ada: Home) -> None:
    assert ada("diff", "2", "4").out == '~ urn:todo:1\n    /done  false -> true\n+ urn:todo:2  {"title": "cook"}\n'
    assert ada("diff", "4", "2", "--prefix", "urn:todo:2").out == '- urn:todo:2  {"title": "cook"}\n'
    assert ada("diff", "4").out == "Nothing differs between version 4 and version 4.\n"
    ada("branch", "create", "draft")
    ada("set", "urn:todo:3", "{}", "--branch", "draft")
    told = ada("diff", "head", "draft", "--json").json
    assert told["changes"] == [{"id": "urn:todo:3", "kind": "added", "before": None, "after": 6, "value": {}}]
    assert ada("diff", "draft@5", "draft", "--json").json["changes"] == told["changes"]
    assert ada("diff", "10 minutes ago", "tag:nothing", "--json").error == "unknown_tag"
    assert ada("diff", "nothing", "--json").error == "unknown_branch"
    assert ada("diff", "no such moment!").code == 2


# ---------------------------------------------------------------- branches


def test_branches_are_made_listed_and_ended(ada: Home) -> None:
    assert ada("branch", "create", "draft", "--fork", "2").out == "draft created from main at version 2\n"
    assert json.loads(ada("get", "urn:todo:1", "--branch", "draft").out) == SPEC
    assert ada("branch", "create", "draft", "--json").error == "branch_exists"
    assert ada("branch").out == (
        "BRANCH  VERSION  PARENT  FORK  STATE\ndraft         0  main       2\nmain          4\n"
    )
    assert ada("branch", "delete", "draft").out == "draft deleted: version 6\n"
    assert [one["name"] for one in ada("branch", "--json").json["branches"]] == ["main"]
    assert "deleted at 6" in ada("branch", "--deleted").out
    assert json.loads(ada("get", "urn:todo:1", "--branch", "draft").out) == SPEC
    refused = ada("set", "urn:x", "1", "--branch", "draft", "--json")
    assert (refused.code, refused.error) == (4, "branch_deleted")
    assert ada("get", "urn:todo:1", "--branch", "nothing", "--json").error == "unknown_branch"
    assert ada("branch", "delete", "main", "--json").error == "branch_protected"


def test_tags_name_versions(ada: Home) -> None:
    assert ada("tag").err == "There are no tags.\n"
    assert ada("tag", "create", "v1", "--at", "3").out == "v1 is version 3 of main\n"
    assert ada("tag", "create", "v1", "--json").error == "tag_exists"
    assert ada("tag", "create", "now", "--json").json["version"] == 5  # the first tag took a version too
    assert ada("tag", "list").out == "TAG  BRANCH  VERSION\nnow  main          5\nv1   main          3\n"
    assert ada("tag", "delete", "v1").code == 0
    assert [one["name"] for one in ada("tag", "--json").json["tags"]] == ["now"]


def test_a_merge_shows_first_what_it_would_do(ada: Home) -> None:
    ada("branch", "create", "draft")
    ada("set", "urn:todo:1", '[{"op": "replace", "path": "/title", "value": "spec"}]', "--patch", "--branch", "draft")
    dry = ada("merge", "draft", "--dry-run")
    assert (dry.code, dry.out) == (
        0,
        'Merging draft into main would write 1 entity.\n~ urn:todo:1  /title  "write the spec" -> "spec"\n',
    )
    assert ada("get", "urn:todo:1", "--path", "/title").out == '"write the spec"\n'
    done = ada("merge", "draft", "--note", "reviewed", "--json")
    assert (done.code, done.json["version"], done.json["writes_count"]) == (0, 7, 1)
    assert ada("get", "urn:todo:1", "--path", "/title").out == '"spec"\n'
    assert ada("merge", "draft").out == "main has all that is on draft; there is nothing to merge.\n"
    assert "merge draft: reviewed" in ada("log", "--limit", "1").out
    assert ada("merge", "nothing", "--json").error == "unknown_branch"


@pytest.mark.rule("MERGE-4")
def test_a_merge_with_conflicts_under_fail_exits_with_1_and_writes_nothing(ada: Home) -> None:
    ada("branch", "create", "draft")
    ada("set", "urn:todo:2", '{"title": "bake"}', "--branch", "draft")
    ada("set", "urn:todo:2", '{"title": "fry"}')
    done = ada("merge", "draft", "--strategy", "fail")
    assert done.code == 1
    assert done.out == (
        "Both sides changed 1 place:\n"
        "  urn:todo:2 /\n"
        '    source@6  {"title": "bake"}\n'
        '    target@7  {"title": "fry"}\n'
    )
    assert done.err.startswith("Error: Both branches changed the same (conflicts: 1).")
    dry = ada("merge", "draft", "--dry-run").out
    assert "would write no entity: what both changed stays as it is on main." in " ".join(dry.split())
    assert "taken: target" in dry
    told = ada("merge", "draft", "--strategy", "fail", "--json")
    assert (told.code, told.error, [one["id"] for one in told.json["conflicts"]]) == (
        1,
        "merge_conflict",
        ["urn:todo:2"],
    )
    assert json.loads(ada("get", "urn:todo:2").out) == {"title": "fry"}
    settled = ada("merge", "draft", "--strategy", "fail", "--resolve", 'urn:todo:2={"title": "both"}')
    assert settled.code == 0
    assert json.loads(ada("get", "urn:todo:2").out) == {"title": "both"}
    assert ada("merge", "draft", "--resolve", "nonsense").code == 2


# ---------------------------------------------------------------- spaces, access, blobs, keeping


def test_a_space_is_made_once_and_found_by_name(ada: Home) -> None:
    again = ada("space", "create", "todo", "--json").json
    assert (again["created"], again["space"]) == (False, did_of(ada, space=True))
    listed = ada("space").out.splitlines()
    assert listed == ["NAME  DID", f"todo  {again['space']}"]
    assert ada("space", "create", "other", "--json").json["created"] is True


def test_a_name_that_nothing_was_made_under_makes_nothing(ada: Home) -> None:
    for words in (("get", "urn:a"), ("set", "urn:a", "1"), ("watch",), ("status",)):
        done = ada(*words, "--space", "tood", "--json")
        assert (done.code, done.error) == (1, "unknown_space")
        assert "stemmadb space create tood" in done.json["error"]["message"]
    assert [one["name"] for one in ada("space", "--json").json["spaces"]] == ["todo"]
    nobody = ada("get", "urn:a", "--identity", "nobody", "--json")
    assert (nobody.code, nobody.error) == (1, "not_found")
    assert [one["name"] for one in ada("keys", "list", "--json").json["identities"]] == ["default"]


def test_without_a_space_it_is_wrong_use(ada: Home) -> None:
    del ada.variables["STEMMADB_SPACE"]
    done = ada("get", "urn:a")
    assert (done.code, done.err.count("\n"), "--space" in done.err) == (2, 1, True)
    assert ada("get", "urn:todo:1", "--space", "todo").code == 0


@pytest.mark.rule("ACL-2")
def test_a_stranger_is_told_of_no_space_and_how_to_be_let_in(ada: Home, bob: Home) -> None:
    done = bob("get", "urn:todo:1", "--json")
    assert (done.code, done.error) == (1, "unknown_space")
    did = bob("keys", "show").out.strip()
    assert f"stemmadb acl set {did} read" in done.json["error"]["message"]
    assert bob("get", "urn:todo:1").err.count("\n") == 1
    assert ada("acl", "set", did, "read").out == f"{did} may read\n"
    assert bob("get", "urn:todo:1").code == 0


def test_an_identity_that_may_not_read_or_write_is_refused(ada: Home, bob: Home) -> None:
    did = bob("keys", "show").out.strip()
    ada("acl", "set", did, "write")
    assert bob("set", "urn:todo:3", "3").code == 0
    listed = ada("acl")
    assert listed.out.splitlines()[0].split() == ["ROLE", "NAME", "DID"]
    assert f"own    default  {did_of(ada, space=False)}" in listed.out
    assert (listed.err, ada("acl", "list", "--json").json["mine"]) == ("Your role is 'own'.\n", "own")
    ada("acl", "set", did, "read")
    refused = bob("set", "urn:todo:3", "4", "--json")
    assert (refused.code, refused.error) == (4, "forbidden")
    assert ada("acl", "remove", did).out == f"{did} may do nothing now\n"
    for words in (("get", "urn:todo:1"), ("list",), ("log",), ("history", "urn:todo:1"), ("watch",)):
        done = bob(*words, "--json")
        assert (done.code, done.error) == (4, "forbidden"), words
        assert bob(*words).err.count("\n") == 1
    assert ada("acl", "remove", "default", "--yes", "--json").error == "invalid_value"


@pytest.mark.rule("ACL-1")
def test_a_list_without_its_caller_is_written_only_after_a_question(ada: Home, bob: Home) -> None:
    mine, other = did_of(ada, space=False), bob("keys", "show").out.strip()
    ada("acl", "set", other, "own")
    before = ada("acl", "list", "--json").json["version"]
    space = did_of(ada, space=True)
    for words in (("acl", "remove", mine), ("set", space, f'{{"{other}": "own"}}', "--blind")):
        assert ada(*words).code != 0, "nobody answers the question"
        assert "--yes" in ada(*words, "--json").json["error"]["message"]
    assert ada("acl", "list", "--json").json["version"] == before
    assert ada("acl", "remove", mine, "--yes").code == 0
    assert ada("get", "urn:todo:1", "--json").error == "forbidden"


def test_a_blob_goes_in_and_comes_out_as_it_was(ada: Home, tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000
    (tmp_path / "photo.jpg").write_bytes(data)
    told = ada("blob", "put", tmp_path / "photo.jpg", "--json").json
    assert (told["size"], told["content_type"]) == (len(data), "image/jpeg")
    assert ada("blob", "put", "-", stdin=data).out == f"{told['hash']}\n"
    got = ada("blob", "get", told["hash"], tmp_path / "copy", "--json")
    assert (got.code, got.json["size"], (tmp_path / "copy").read_bytes() == data) == (0, len(data), True)
    again = ada("blob", "get", told["hash"], tmp_path / "copy")
    assert (again.code, "--force" in again.err) == (2, True)
    assert ada("blob", "get", told["hash"], tmp_path / "copy", "--force").code == 0
    assert ada("blob", "get", told["hash"], "-", "--json").code == 2
    nothing = ada("blob", "get", "b3:" + "a" * 52, tmp_path / "nothing", "--json")
    assert (nothing.code, nothing.error) == (1, "unknown_blob")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.rule("COMPACT-1")
def test_compact_goes_through_the_server(ada: Home, server: Process) -> None:
    done = ada("compact", "--floor", "4", "--yes", "--json")
    assert (done.code, done.json["floor"]) == (0, 4)
    assert ada("get", "urn:todo:1", "--at", "2", "--json").error == "compacted"
    held = ada(
        "compact", "--floor", "4", "--yes", "--data", server.data, "--space", did_of(ada, space=True), "--json"
    )
    assert (held.code, held.error) == (3, "directory_held")


def test_compact_and_erase_show_what_would_go_and_want_yes(ada: Home) -> None:
    ada("tag", "create", "old", "--at", "2")
    would = ada("compact", "--floor", "4", "--dry-run")
    assert " ".join(would.out.split()) == (
        f"todo ({did_of(ada, space=True)}): 3 versions below 4 could no longer be read. "
        "1 tag would stay readable: old (2)."
    )
    assert ada("compact", "--older-than", "0 seconds", "--dry-run", "--json").json["floor"] == 5
    assert ada("compact", "--older-than", "30d", "--dry-run", "--json").json["floor"] == 1
    assert "write it as" in ada("compact", "--older-than", "1month", "--dry-run").err.lower()
    gone = ada("erase", "urn:todo:1", "--version", "2", "--dry-run")
    assert gone.out.startswith("1 change of urn:todo:1 would be erased, with every copy:\n")
    assert '"write the' in gone.out
    assert ada("erase", "urn:todo:1", "--version", "3", "--dry-run").code == 1
    for words in (("compact", "--floor", "4"), ("erase", "urn:todo:1", "--version", "2")):
        refused = ada(*words)
        assert (refused.code, "confirm with --yes" in refused.err) == (2, True)
    assert ada("get", "urn:todo:1", "--at", "2").code == 0


def test_an_age_that_a_compaction_has_passed_keeps_its_floor(ada: Home) -> None:
    assert ada("compact", "--floor", "4", "--yes").code == 0
    would = ada("compact", "--older-than", "30d", "--dry-run")
    said = " ".join(would.out.split())
    assert (would.code, "every version that can be read would stay readable, from 4 on" in said) == (0, True)
    would = ada("compact", "--floor", "5", "--dry-run")
    assert "1 version below 5 could no longer be read." in " ".join(would.out.split())


@pytest.mark.rule("ERASE-1")
def test_erase_goes_through_the_server(ada: Home, bob: Home) -> None:
    done = ada("erase", "--yes", "urn:todo:2", "--version", "3", "--survivor", 'main={"title": null}', "--json")
    assert (done.code, done.json["erased"]) == (0, 1)
    assert json.loads(ada("get", "urn:todo:2").out) == {"title": None}
    assert ada("get", "urn:todo:2", "--at", "3", "--json").error == "erased"
    assert ada("erase", "--yes", "urn:todo:2", "--version", "3", "--survivor", "main").code == 2
    ada("acl", "set", bob("keys", "show").out.strip(), "write")
    assert bob("erase", "--yes", "urn:todo:1", "--version", "2", "--json").error == "forbidden"


def test_status_tells_of_the_server_and_of_a_space_or_of_a_directory(ada: Home, server: Process) -> None:
    told = ada("status", "--json").json
    assert (told["ready"], told["space"]["version"], told["space"]["role"]) == (True, 4, "own")
    said = ada("status").out.splitlines()
    assert said[0] == f"server    {server.address}, ready"
    files = ada("status", "--data", server.data, "--json").json
    assert (files["held"], files["data"]) == (True, str(server.data))
    help_ = ada("status", "--help").out
    assert "Example: stemmadb status --space todo" in help_
    assert "Example: stemmadb status --data ./data" in help_


# ---------------------------------------------------------------- what is not there


@pytest.mark.parametrize(
    "words",
    [
        ("get", "urn:a"),
        ("set", "urn:a", "1"),
        ("log",),
        ("watch",),
        ("branch",),
        ("merge", "draft"),
        ("status",),
        ("compact", "--floor", "1", "--yes"),
    ],
)
def test_a_server_that_is_not_there_exits_with_3_and_says_how_to_start_one(ada: Home, words: tuple[str, ...]) -> None:
    space = did_of(ada, space=True)
    done = ada(*words, "--url", "ws://127.0.0.1:1", "--space", space)
    assert (done.code, done.out) == (3, "")
    assert done.err.splitlines()[0].startswith("Error: ws://127.0.0.1:1 cannot be reached")
    assert "stemmadb serve" in done.err
    assert ada(*words, "--url", "ws://127.0.0.1:1", "--space", space, "--json").error == "unreachable"


def test_an_address_that_is_none_is_wrong_use(ada: Home) -> None:
    for words in (("get", "urn:a"), ("status",)):
        done = ada(*words, "--url", "http://127.0.0.1:1", "--json")
        assert (done.code, "ws://" in done.json["error"]["message"]) == (2, True)


def test_a_version_that_does_not_exist_is_refused(ada: Home) -> None:
    for words in (
        ("get", "urn:todo:1", "--at", "99"),
        ("diff", "1", "99"),
        ("revert", "99"),
        ("log", "--until", "99"),
    ):
        done = ada(*words, "--json")
        assert (done.code, done.error) == (1, "future_version"), words


def test_a_moment_that_nobody_understands_is_wrong_use(ada: Home) -> None:
    done = ada("get", "urn:todo:1", "--at", "whenever")
    assert (done.code, "10 minutes ago" in done.err, done.err.count("\n")) == (2, True, 1)


# ---------------------------------------------------------------- names and servers


@pytest.mark.rule("NAME-1")
def test_localhost_and_127_0_0_1_are_one_server(ada: Home, server: Process) -> None:
    spelled = server.address.replace("127.0.0.1", "localhost")
    assert ada("get", "urn:todo:2", "--url", spelled).out == '{\n  "title": "cook"\n}\n'
    assert ada("space", "list", "--url", spelled, "--json").json["spaces"] == [
        {"name": "todo", "space": did_of(ada, space=True)}
    ]
    again = ada("space", "create", "todo", "--url", spelled)
    assert (again.code, again.out) == (0, f"{did_of(ada, space=True)}\n")
    assert again.err == f"There is a space 'todo' at {spelled} already; nothing was made.\n"


@pytest.mark.rule("NAME-1")
def test_a_name_of_another_server_is_made_only_if_one_says_so(ada: Home, tmp_path: Path) -> None:
    other = Process(tmp_path / "other")
    other.start()
    try:
        wanted = ("--url", other.address)
        unknown = ada("get", "urn:todo:1", *wanted)
        assert unknown.code == 1
        assert f"You have another space 'todo' at {ada.variables['STEMMADB_URL']}" in unknown.err
        assert "--new" in unknown.err
        refused = ada("space", "create", "todo", *wanted)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "Say --new if you want that." in refused.err
        assert ada("space", "list", *wanted, "--json").json["spaces"] == []
        made = ada("space", "create", "todo", "--new", *wanted, "--json").json
        assert made["created"]
        assert made["space"] != did_of(ada, space=True)
    finally:
        assert other.stop() == 0


@pytest.mark.rule("NAME-1")
def test_a_server_whose_data_was_deleted_is_a_new_one(tmp_path: Path) -> None:
    server = Process(tmp_path / "data")
    server.start()
    home = Home(tmp_path / "ada", server.address, space="todo")
    assert home("space", "create", "todo").code == 0
    old = home("status", "--json").json
    port = int(server.address.rpartition(":")[2])
    assert server.stop() == 0
    shutil.rmtree(tmp_path / "data")
    server.start(port)
    try:
        done = home("list", "--json")
        assert done.code == 0
        assert f"it was {old['server']}" in done.err
        assert f"the one of before is {old['space']['did']}" in done.err
        assert home("list").err == ""
    finally:
        assert server.stop() == 0


@pytest.mark.rule("NAME-1")
@pytest.mark.parametrize("space", ["todo", "never made"])
def test_a_server_that_is_not_there_is_unreachable_and_no_unknown_space(ada: Home, space: str) -> None:
    for words in (("get", "urn:todo:1", "--space", space), ("space", "create", space), ("space", "did", "nothing")):
        done = ada(*words, "--url", "ws://127.0.0.1:1", "--json")
        assert (done.code, done.error) == (3, "unreachable"), words


def test_space_did_prints_the_did_of_a_name(ada: Home) -> None:
    assert ada("space", "did", "todo").out == f"{did_of(ada, space=True)}\n"
    none = ada("space", "did", "nothing", "--json")
    assert (none.code, none.error) == (1, "unknown_space")
