"""`stemmadb keys`: what a person sees, and what a program reads."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from command_line import Ran
from stemmadb.client.cli import main
from stemmadb.client.cli.keys import keys
from stemmadb.client.keys.identity import Identity
from stemmadb.client.keys.key_files import from_pem, to_pem
from stemmadb.client.keys.names import Names
from stemmadb.client.keys.ring import KeyRing


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STEMMADB_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def told(*words: object, stdin: bytes | str | None = None) -> Ran:
    """`stemmadb keys` with these words."""
    done = CliRunner().invoke(main, ["keys", *map(str, words)], input=stdin, prog_name="stemmadb")
    return Ran(done.exit_code, done.stdout, done.stderr)


def test_every_command_has_help_with_an_example_and_json() -> None:
    for name, command in keys.commands.items():
        with click.Context(command, info_name=name) as context:
            text = command.get_help(context)
        assert f"Example: stemmadb keys {name}" in text
        assert "--json" in text
    done = told("--help")
    assert done.code == 0
    assert "Example: stemmadb keys " in done.out
    assert "--json" in done.out
    assert set(keys.commands) == {"list", "show", "new", "export", "import", "spaces"}


def test_show_makes_the_default_identity_once(home: Path) -> None:
    first = told("show")
    assert (first.code, first.err) == (0, "")
    assert first.out.strip() == KeyRing(home).identity().did
    assert told("show", "default").out == first.out
    assert told("show", "--json").json == {"name": "default", "did": first.out.strip()}


def test_show_makes_no_other() -> None:
    done = told("show", "robot")
    assert done.code == 1
    assert "There is no identity 'robot'." in done.err
    assert "stemmadb keys new robot" in done.err
    assert told("show", "robot", "--json").error == "not_found"


def test_new_makes_one_and_list_lists_it(home: Path) -> None:
    assert "There are no identities" in told("list").out
    did = told("new", "robot", "--json").json["did"]
    told("show")
    listed = told("list")
    assert listed.out.splitlines() == [f"default  {KeyRing(home).identity().did}", f"robot  {did}"]
    assert told("list", "--json").json == {
        "directory": str(home),
        "identities": [{"name": "default", "did": KeyRing(home).identity().did}, {"name": "robot", "did": did}],
    }
    assert told().out == listed.out
    assert told("--json").json == told("list", "--json").json
    assert told("new", "robot", "--json").error == "already_exists"
    assert told("new", "../robot").code == 2


def test_a_secret_is_printed_only_on_request() -> None:
    did = told("new", "robot").out.strip()
    secret = told("export", "robot", "--yes").out.encode()
    assert from_pem(secret, source="x").did == did
    asked = told("export", "robot", stdin="y\n")
    assert asked.out.encode() == secret
    assert "Whoever has this secret is robot" in asked.err
    refused = told("export", "robot", stdin="n\n")
    assert (refused.code, refused.out) == (130, "")
    assert "The secret was not printed." in refused.err
    for_a_program = told("export", "robot", "--json")
    assert (for_a_program.code, for_a_program.error) == (2, "wrong_use")
    answer = told("export", "robot", "--yes", "--json").json
    assert (answer["did"], from_pem(answer["secret"].encode(), source="x").did) == (did, did)
    assert told("export", "nobody", "--yes").code == 1


def test_what_was_exported_can_be_imported(tmp_path: Path, home: Path) -> None:
    made = Identity.make()
    done = told("import", "moved", stdin=to_pem(made))
    assert (done.code, done.out.strip()) == (0, made.did)
    assert KeyRing(home).identity("moved").seed() == made.seed()
    file = tmp_path / "robot.key"
    file.write_bytes(to_pem(made))
    assert told("import", "again", file, "--json").json == {"name": "again", "did": made.did}
    assert told("import", "moved", stdin=to_pem(Identity.make())).code == 4
    bad = told("import", "bad", "--json", stdin=b"garbage")
    assert (bad.code, bad.error) == (2, "malformed")
    assert told("import", "bad", tmp_path / "missing").code == 2


def test_spaces_are_listed_by_server_with_what_is_held(home: Path) -> None:
    assert "There are no spaces yet." in told("spaces").out
    held, known, unnamed = Identity.make(), Identity.make(), Identity.make()
    KeyRing(home).keep_space_key(held)
    KeyRing(home).keep_space_key(unnamed)
    names = Names(home)
    one, other = Identity.make().did, Identity.make().did
    names.remember("ws://b", other, "todo", known.did)
    names.remember("ws://a", one, "notes", held.did)
    names.meet("ws://a2", one)
    done = told("spaces")
    assert done.out.splitlines() == [
        f"ws://a, ws://a2  notes  {held.did}  (key)",
        f"ws://b  todo  {known.did}",
        f"(without a name)  {unnamed.did}  (key)",
    ]
    assert told("spaces", "--json").json == {
        "spaces": [
            {
                "name": "notes",
                "space": held.did,
                "server": one,
                "addresses": ["ws://a", "ws://a2"],
                "key": True,
            },
            {"name": "todo", "space": known.did, "server": other, "addresses": ["ws://b"], "key": False},
        ],
        "unnamed": [unnamed.did],
    }


@pytest.mark.parametrize("words", [("nonsense",), ("new",), ("show", "a", "b"), ("list", "--nonsense")])
def test_wrong_use_of_keys_is_one_sentence_with_a_hint(words: tuple[str, ...]) -> None:
    done = told(*words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "Try 'stemmadb keys" in done.err
    assert json.loads(told(*words, "--json").out)["error"]["code"] == "wrong_use"


def test_a_key_that_others_can_read_is_told_with_what_to_run(home: Path) -> None:
    told("show")
    file = home / "identities" / "default.key"
    file.chmod(0o644)
    done = told("show")
    assert done.code == 4
    assert f"Run: chmod 600 {file}" in done.err
