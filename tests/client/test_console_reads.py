"""The console's commands that read: what they show at 80 columns, at any branch and version, and what they refuse."""

from __future__ import annotations

import msgspec
import pytest

from console_worlds import TypedConsole, in_a_console, in_the_story, put


def lines(text: str) -> list[str]:
    return text.splitlines()


@pytest.mark.rule("HISTORY-2")
def test_a_value_is_shown_as_it_was_at_a_version() -> None:
    async def scenario(console: TypedConsole) -> None:
        assert lines(await console.text("get urn:todo:1"))[1:-1] == [
            '  "title": "write the manual",',
            '  "done": true',
        ]
        assert await console.text("at 2") == (
            "You are at main@2, last written 2026-09-21 14:13:20 by alice …UShbGULs: first\nitems."
        )
        assert lines(await console.text("get urn:todo:1"))[1:-1] == [
            '  "title": "write the spec",',
            '  "done": false',
        ]
        assert await console.text("get urn:todo:1 /done") == "false"
        assert await console.text("at head") == "You are at main@head."
        assert await console.text("get urn:todo:1 /done") == "true"

    in_the_story(scenario)


@pytest.mark.parametrize(
    ("moment", "place"),
    [
        ("2", "main@2"),
        ('"285 seconds ago"', "main@2"),
        ("285 seconds ago", "main@2"),
        ("2026-09-21 14:14:00", "main@2"),
        ("tag:v1", "main@11"),
        ("draft", "draft@head"),
        ("draft@5", "draft@5"),
        ("branch:fix", "fix@head"),
        ("head", "main@head"),
        ("0", "main@0"),
    ],
)
def test_a_moment_can_be_written_in_many_ways(moment: str, place: str) -> None:
    async def scenario(console: TypedConsole) -> None:
        assert (await console.text(f"at {moment}")).startswith(f"You are at {place}")
        assert console.state.prompt == f"todo {place}> "
        assert (await console.text("at")) == f"You are at {place}."

    in_the_story(scenario)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("at 4000", "future_version", "the space is at version 12"),
        ("at sometime", "invalid_query", "neither a branch nor a moment: write 42"),
        ("at nope@3", "unknown_branch", "no branch 'nope'"),
        ("at tag:nope", "unknown_tag", "no tag 'nope'"),
        ("branch nope", "unknown_branch", "no branch 'nope'"),
        ("diff 1 4000", "future_version", "4000"),
        ("get urn:todo:9", "not_found", "is not there in main@head"),
        ("get urn:todo:1 /nope", "not_found", "has nothing at '/nope'"),
        ("get urn:todo:1 nope", "invalid_pointer", "nope"),
        ("get todo", "invalid_id", "URI"),
        ("history urn:todo:9", "not_found", "urn:todo:9"),
        ("blame urn:todo:9", "not_found", "urn:todo:9"),
        ("query {a}", "malformed", "not JSON"),
        ("query urn:todo: [1]", "invalid_schema", "object"),
        ('query {"type": "nonsense"}', "invalid_schema", "type"),
        ("merge nope --dry-run", "unknown_branch", "nope"),
        ("merge fix --dry-run --strategy mine", "malformed", "no strategy 'mine'"),
        ("log --author nobody", "invalid_query", "did:key"),
        ("log --since sometime", "invalid_query", "not a moment"),
        ("log --limit many", "malformed", "not a number"),
        ("log --nope", "malformed", "no option --nope. Usage: log"),
        ("log --limit", "malformed", "needs a value after --limit"),
        ("log --all=1", "malformed", "takes no value after --all"),
        ("get", "malformed", "takes 1 to 2 arguments. Usage: get ID [PATH]"),
        ("get a b c", "malformed", "`get` takes 1 to 2 arguments"),
        ("gett urn:todo:1", "malformed", "Did you mean 'get'?"),
        ("zzz", "malformed", "Type 'help'"),
        ("help zzz", "malformed", "no command 'zzz'"),
    ],
)
def test_a_wrong_command_gets_one_sentence(line: str, code: str, words: str) -> None:
    async def scenario(console: TypedConsole) -> None:
        before = console.state
        error = await console.error(line)
        assert error.code == code
        assert words in error.message
        assert console.state is before

    in_the_story(scenario)


def test_a_null_is_a_value_and_not_an_absence() -> None:
    async def scenario(console: TypedConsole) -> None:
        await put(console.state.space, _1=None, _2={"a": None})
        assert await console.text("get urn:todo:1") == "null"
        assert await console.text("get urn:todo:2 /a") == "null"
        await console.text("at 2")
        assert await console.text("get urn:todo:1") == "null"

    in_a_console(scenario)


def test_ls_lists_a_prefix_with_or_without_a_star() -> None:
    async def scenario(console: TypedConsole) -> None:
        expected = [
            "ID          VALUE",
            'urn:todo:1  {"title": "write the manual", "done": true}',
            'urn:todo:2  {"title": "soy milk", "done": false}',
        ]
        assert lines(await console.text("ls urn:todo:")) == expected
        assert lines(await console.text("ls urn:todo:*")) == expected
        assert lines(await console.text("ls urn:todo: --limit 1"))[1:] == [
            expected[1],
            "... and 1 more; use --limit 2",
        ]
        assert await console.text("ls urn:nope:") == "Nothing is under 'urn:nope:*' in main@head."
        await console.text("branch fix")
        assert "oat milk" in await console.text("ls urn:todo:2")

    in_the_story(scenario)


def test_a_query_finds_what_matches_a_schema() -> None:
    async def scenario(console: TypedConsole) -> None:
        schema = '{"properties": {"done": {"const": true}}, "required": ["done"]}'
        found = ["ID          VALUE", 'urn:todo:1  {"title": "write the manual", "done": true}']
        assert lines(await console.text(f"query {schema}")) == found
        assert lines(await console.text(f"query urn:todo: {schema}")) == found
        assert lines(await console.text(f"query urn:todo:1 {schema}")) == found
        assert await console.text(f"query urn:todo:2 {schema}") == "Nothing matches in main@head."
        await console.text("at 2")
        assert await console.text(f"query {schema}") == "Nothing matches in main@2."

    in_the_story(scenario)


@pytest.mark.rule("QUERY-8")
def test_a_query_shows_the_first_in_order() -> None:
    async def scenario(console: TypedConsole) -> None:
        ascending = lines(await console.text("query urn:todo: --order /title --limit 99"))[1:]
        assert len(ascending) > 1
        assert lines(await console.text("query urn:todo: --order -/title --limit 99"))[1:] == ascending[::-1]
        assert lines(await console.text("query urn:todo: --order /title,/done --limit 1"))[1:] == ascending[:1]

    in_the_story(scenario)


def test_a_nested_query_shows_what_links_lead_to() -> None:
    async def scenario(console: TypedConsole) -> None:
        link = {"/": {"link@1": {"id": "urn:todo:2"}}}
        await put(console.state.space, _1={"by": link}, _2={"name": "Ada"})
        schema = '{"properties": {"by": {"properties": {"name": {}}}}}'
        shown = await console.text(f"query urn:todo:1 {schema} --nested")
        assert lines(shown) == ["{", '  "by": {', '    "name": "Ada"', "  }", "}"]

    in_a_console(scenario)


@pytest.mark.rule("HISTORY-1")
def test_the_log_is_that_of_the_place_one_stands_at() -> None:
    async def scenario(console: TypedConsole) -> None:
        assert lines(await console.text("log urn:todo:")) == [
            "VERSION  TIME                 AUTHOR           FACTS  NOTE",
            "      9  2026-09-21 14:17:20  alice …UShbGULs      1  soy",
            "      6  2026-09-21 14:16:20  alice …UShbGULs      1  merge draft",
            "      3  2026-09-21 14:14:20  alice …UShbGULs      1  finished",
            "      2  2026-09-21 14:13:20  alice …UShbGULs      2  first items",
        ]
        assert lines(await console.text("log --limit 1"))[-1] == "... older commits with --limit 5"
        assert "branch.delete old" in await console.text("log --all")
        assert (
            lines(await console.text('log --since "3 minutes ago" --author alice'))[1:]
            == lines(await console.text("log urn:todo:"))[1:3]
        )
        assert await console.text("log --author bob") == "No commit of main@head matches."
        await console.text("at 3")
        assert len(lines(await console.text("log urn:todo:"))) == 3
        assert len(lines(await console.text("log urn:todo: --until '2026-09-21 14:14:00'"))) == 2

    in_the_story(scenario)


def test_the_log_shows_facts_if_asked() -> None:
    async def scenario(console: TypedConsole) -> None:
        assert lines(await console.text("log --facts --limit 2"))[:4] == [
            "9  2026-09-21 14:17:20  alice …UShbGULs  main  soy",
            '    set urn:todo:2  {"title": "soy milk", "done": false}',
            "6  2026-09-21 14:16:20  alice …UShbGULs  main  merge draft",
            '    patch urn:todo:1  /title = "write the manual"',
        ]

    in_the_story(scenario)


def test_history_and_blame_tell_who_changed_what() -> None:
    async def scenario(console: TypedConsole) -> None:
        assert lines(await console.text("history urn:todo:1 --limit 1")) == [
            "VERSION  TIME                 AUTHOR           CHANGE                      NOTE",
            '      6  2026-09-21 14:16:20  alice …UShbGULs  /title  "write the spec"    merge',
            '                                               -> "write the manual"',
            "... older changes with --limit 5",
        ]
        assert lines(await console.text("blame urn:todo:1")) == [
            "PATH    VALUE            VERSION  TIME                 AUTHOR           NOTE",
            '/title  "write the             6  2026-09-21 14:16:20  alice …UShbGULs',
            '        manual"',
            "/done   true                   3  2026-09-21 14:14:20  alice …UShbGULs  finished",
        ]
        await console.text("at 2")
        assert lines(await console.text("blame urn:todo:1 /done"))[1].split()[:3] == ["/done", "false", "2"]
        assert [line.split()[0] for line in lines(await console.text("history urn:todo:1"))][1] == "2"

    in_the_story(scenario)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("diff 2 3", ["main@2 -> main@3", "~ urn:todo:1", "    /done  false -> true"]),
        ("diff 3 2", ["main@3 -> main@2", "~ urn:todo:1", "    /done  true -> false"]),
        ("diff 9 9", ["main@9 -> main@9", "Nothing differs between version 9 and version 9."]),
        (
            "diff fix main --prefix urn:todo:2",
            ["fix@12 -> main@12", "~ urn:todo:2", '    /title  "oat milk" -> "soy milk"'],
        ),
        (
            "diff draft@5 draft@4",
            ["draft@5 -> draft@4", "~ urn:todo:1", '    /title  "write the manual" -> "write the spec"'],
        ),
        (
            "diff 1 2 --prefix urn:todo:2",
            ["main@1 -> main@2", '+ urn:todo:2  {"title": "milk", "done": false}'],
        ),
    ],
)
def test_a_difference_leads_from_one_place_to_another(line: str, expected: list[str]) -> None:
    async def scenario(console: TypedConsole) -> None:
        assert lines(await console.text(line)) == expected

    in_the_story(scenario)


def test_a_difference_with_one_side_leads_to_where_one_stands() -> None:
    async def scenario(console: TypedConsole) -> None:
        await console.text("at 3")
        assert lines(await console.text("diff 2"))[0] == "main@2 -> main@3"
        assert lines(await console.text("diff 2 head"))[0] == "main@2 -> main@12"

    in_the_story(scenario)


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_nothing_is_wider_than_the_terminal(columns: int) -> None:
    async def scenario(console: TypedConsole) -> None:
        for line in (
            "ls",
            "log --all",
            "history urn:todo:1",
            "blame urn:todo:1",
            "branches",
            "help",
            "status",
            "diff 1",
        ):
            assert max(map(len, lines(await console.text(line, columns=columns)))) <= columns

    in_the_story(scenario)


def test_what_others_wrote_cannot_move_the_cursor() -> None:
    async def scenario(console: TypedConsole) -> None:
        await put(console.state.space, "\x1b[2J gone", _1={"title": "\x1b]0;x\x07", "\r": 1})
        for line in ("ls urn:", "get urn:todo:1", "log", "history urn:todo:1", "blame urn:todo:1", "diff 1"):
            shown = await console.text(line)
            assert not any(letter in shown for letter in "\x1b\x07\r")

    in_a_console(scenario)


def test_an_erased_value_says_so() -> None:
    async def scenario(console: TypedConsole) -> None:
        await put(console.state.space, _1={"secret": 1})
        await put(console.state.space, _1={"secret": 0})
        await console.state.space.erase("urn:todo:1", [2])
        await console.text("at 2")
        assert (await console.error("get urn:todo:1")).code == "erased"

    in_a_console(scenario)


def test_every_answer_for_programs_can_be_read_as_json() -> None:
    async def scenario(console: TypedConsole) -> None:
        for line in (
            "get urn:todo:1",
            "ls",
            "query",
            "log --facts",
            "history urn:todo:1",
            "diff 1",
            "blame urn:todo:1",
        ):
            assert msgspec.json.decode(msgspec.json.encode((await console.reply(line)).data))
        for line in ("branches", "tags", "status", "whoami", "pending", "rejected", "at", "at 3", "help", "help get"):
            assert msgspec.json.decode(msgspec.json.encode((await console.reply(line)).data))

    in_the_story(scenario)


def test_the_console_takes_what_the_command_line_takes() -> None:
    async def scenario(console: TypedConsole) -> None:
        assert await console.text("get urn:todo:1 --path /title") == await console.text("get urn:todo:1 /title")
        assert await console.text("blame urn:todo:1 --path /done") == await console.text("blame urn:todo:1 /done")
        assert await console.text("log --prefix urn:todo:") == await console.text("log urn:todo:")
        schema = '{"properties": {"done": {"const": true}}}'
        assert await console.text(f"query urn:todo:* --schema {schema}") == await console.text(
            f"query urn:todo:* {schema}"
        )

    in_the_story(scenario)


def test_the_log_says_why_versions_are_missing() -> None:
    async def scenario(console: TypedConsole) -> None:
        assert "not on main: versions count all writes of the space" in " ".join((await console.text("log")).split())
        assert "versions count" not in await console.text("log --all")

    in_the_story(scenario)
