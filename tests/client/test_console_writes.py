"""The console's commands that write, move and stand: only where it may, and each says what became of it."""

from __future__ import annotations

import pytest

from console_worlds import SPACE, TypedConsole, console, in_a_console, in_the_story, put
from drawn_shapes import text_of
from stemmadb.client.console import catalogue, words
from stemmadb.client.testing import World

WRITING = ("set urn:a 1", "patch urn:a {}", "delete urn:a", "undo", "redo", "merge fix", "revert 3")
MISWRITTEN = ("set", "patch urn:a", "undo 3 4", "set urn:a text")
BRANCHING = ("branch create new", "branch delete fix", "rejected retry 1")


def lines(text: str) -> list[str]:
    return text.splitlines()


@pytest.mark.parametrize("line", [*WRITING, *MISWRITTEN, *BRANCHING])
def test_a_console_only_reads_unless_it_was_started_to_write(line: str) -> None:
    async def scenario(console: TypedConsole) -> None:
        error = await console.error(line)
        assert (error.code, "--write" in error.message) == ("forbidden", True)
        assert console.state.space.status().server_head <= 12

    in_the_story(scenario)


@pytest.mark.parametrize("line", [*WRITING, *BRANCHING])
def test_the_past_is_not_written(line: str) -> None:
    async def scenario(given: TypedConsole) -> None:
        console = given.writing()
        await console.text("at 3")
        error = await console.error(line)
        assert "Say 'at head' first" in error.message

    in_the_story(scenario)


def test_values_are_set_patched_and_deleted() -> None:
    async def scenario(given: TypedConsole) -> None:
        console = given.writing()
        assert await console.text('set urn:a {"n": 1} --note "why not"') == "Written as version 2."
        assert await console.text('patch urn:a {"op": "increment", "path": "/n", "by": 2}') == "Written as version 3."
        assert await console.text('patch urn:a [{"op": "add", "path": "/m", "value": []}]') == "Written as version 4."
        assert await console.state.space.get("urn:a") == {"n": 3, "m": []}
        assert "why not" in await console.text("log urn:a")
        assert await console.text("delete urn:a --blind") == "Written as version 5."
        assert (await console.error("get urn:a")).code == "not_found"
        assert await console.text('set urn:a "a text"') == "Written as version 6."
        assert (await console.error("set urn:a text")).code == "malformed"
        assert (await console.error('patch urn:a {"op": "remove", "path": "/x"}')).code == "patch_failed"

    in_a_console(scenario)


def test_own_commits_are_undone_and_brought_back() -> None:
    async def scenario(given: TypedConsole) -> None:
        console = given.writing()
        assert await console.text("undo") == "There is nothing of this console to undo on this branch."
        await console.text("set urn:a 1")
        await console.text("set urn:a 2")
        assert await console.text("undo") == "Took back 3 with version 4."
        assert await console.text("get urn:a") == "1"
        assert await console.text("redo") == "Brought back with version 5."
        assert await console.text("get urn:a") == "2"
        assert await console.text("redo") == "There is nothing to bring back."

    in_a_console(scenario)


def test_a_revert_can_be_tried_without_writing() -> None:
    async def scenario(console: TypedConsole) -> None:
        shown = lines(await console.text("revert 9 --dry-run"))
        assert shown[0] == "This would take back 9: 1 write."
        assert shown[1].startswith("~ urn:todo:2")
        assert (await console.error("revert nine --dry-run")).code == "malformed"
        assert await console.writing().text("revert 9") == "Took back 9 with version 13."
        assert await console.text("get urn:todo:2 /title") == '"milk"'

    in_the_story(scenario)


@pytest.mark.rule("MERGE-3")
def test_a_merge_can_be_tried_without_writing() -> None:
    async def scenario(console: TypedConsole) -> None:
        shown = await console.text("merge fix --dry-run --strategy source")
        assert "urn:todo:2" in shown
        assert "Both sides changed 1 place:" in shown
        assert lines(shown)[-3:] == [
            "  urn:todo:2 /  taken: source",
            '    source@8  {"title": "oat milk", "done": false}',
            '    target@9  {"title": "soy milk", "done": false}',
        ]
        assert await console.text("get urn:todo:2 /title") == '"soy milk"'
        assert console.state.space.status().server_head <= 12
        assert (await console.reply("merge draft --dry-run")).data["writes_count"] == 0

    in_the_story(scenario)


def test_a_merge_under_fail_shows_what_both_changed() -> None:
    async def scenario(given: TypedConsole) -> None:
        console = given.writing()
        reply = await console.reply("merge fix --strategy fail")
        assert reply.error is not None
        assert reply.error.code == "merge_conflict"
        shown = "\n".join(text_of(shape, 80) for shape in reply.shapes)
        assert "urn:todo:2" in shown
        assert "oat milk" in shown
        assert "version 13" in await console.text("merge main --into fix --strategy target")
        assert "version 14" in await console.text("merge fix --strategy source --note why")

    in_the_story(scenario)


def test_branches_are_made_gone_to_and_deleted() -> None:
    async def scenario(given: TypedConsole) -> None:
        console = given.writing()
        assert await console.text("branch create new") == "You are at new@head, which begins as main@head."
        await console.text("set urn:a 1")
        assert await console.text("branch") == "You are at new@head."
        assert await console.text("branch main") == "You are at main@head."
        assert (await console.error("get urn:a")).code == "not_found"
        assert "begins as main@3" in await console.text("branch create older --fork 3")
        assert await console.text("get urn:todo:2 /title") == '"milk"'
        assert await console.text("branch delete older") == "Deleted branch older with version 16."
        assert (await console.error("branch delete main")).code == "branch_protected"
        assert (await console.error("branch rename a")).code == "malformed"
        assert (await console.error("set urn:a 2")).code == "branch_deleted"

    in_the_story(scenario)


def test_a_deleted_branch_is_read_and_not_written() -> None:
    async def scenario(given: TypedConsole) -> None:
        console = given.writing()
        told = await console.text("branch old")
        assert told == "You are at old@head. It was deleted at version 11: it can be read, not written."
        assert await console.text("get urn:todo:2 /title") == '"soy milk"'
        error = await console.error("set urn:todo:2 1")
        assert error.code == "branch_deleted"
        assert "Error" not in await console.text("rejected")

    in_the_story(scenario)


def test_another_branch_is_seen_at_the_same_moment() -> None:
    async def scenario(console: TypedConsole) -> None:
        await console.text("at 8")
        assert await console.text("branch fix") == "You are at fix@8."
        assert await console.text("get urn:todo:2 /title") == '"oat milk"'
        await console.text("at tag:v1")
        assert console.state.place == "main@11"

    in_the_story(scenario)


def test_branches_are_drawn_with_forks_and_merges() -> None:
    async def scenario(console: TypedConsole) -> None:
        assert lines(await console.text("branches")) == [
            "  ✕  11  old was deleted  2026-09-21 14:18:20  alice …UShbGULs",
            "╭─╯   9  old begins from main",
            "●     9  main  2026-09-21 14:17:20  alice …UShbGULs  soy",
            "│ ●   8  fix  2026-09-21 14:16:20  alice …UShbGULs  oat",
            "├─╯   6  fix begins from main",
            "●─╮   6  main <- draft@5  2026-09-21 14:16:20  alice …UShbGULs",
            "│ ●   5  draft  2026-09-21 14:15:20  alice …UShbGULs  reworded",
            "├─╯   3  draft begins from main",
            "┊        3 commits",
        ]
        await console.text("at 3")
        assert lines(await console.text("branches"))[-2:] == [
            "◆     3  main you are here  2026-09-21 14:14:20  alice …UShbGULs  finished",
            "┊        2 commits",
        ]
        assert await console.text("branch list") == await console.text("branches --list")
        assert lines(await console.text("branches --list"))[0].split() == [
            "BRANCH",
            "VERSION",
            "PARENT",
            "FORK",
            "STATE",
        ]
        assert lines(await console.text("tags")) == ["TAG  BRANCH  VERSION", "v1   main         11"]

    in_the_story(scenario)


def test_of_many_branches_the_last_used_are_drawn() -> None:
    async def scenario(console: TypedConsole) -> None:
        for number in range(14):
            await console.state.space.branch(f"b{number:02}", create=True)
        shown = await console.text("branches")
        assert "... and 3 other branches; see 'branches --list'" in shown
        assert "b13 begins" in shown
        assert "b00" not in shown
        assert await console.text("tags") == "There are no tags."

    in_a_console(scenario)


# ---------------------------------------------------------------- how it stands


def test_status_and_whoami_say_where_and_who_one_is() -> None:
    async def scenario(console: TypedConsole) -> None:
        shown = dict(line.split(maxsplit=1) for line in lines(await console.text("status")))
        assert (shown["place"], shown["connection"], shown["head"]) == ("main@head", "open", "12")
        assert shown["writes"] == "off; start with --write"
        me = dict(line.split(maxsplit=1) for line in lines(await console.text("whoami")))
        assert (me["identity"], me["role"], me["for"]) == ("carol", "read", "every id")
        assert (await console.writing().error("set urn:a 1")).code == "forbidden"

    in_the_story(scenario, who="carol")


def test_what_is_pending_is_listed_while_the_server_is_away() -> None:
    async def scenario(given: TypedConsole) -> None:
        console = given.writing()
        assert await console.text("pending") == "Nothing is pending."
        console.world.network["alice"].offline()
        async with console.state.space.transaction(note="on the train") as tx:
            tx.set("urn:todo:1", 1, blind=True)
        shown = lines(await console.text("pending"))
        assert shown[0].split() == ["AGE", "BRANCH", "IDS", "STATE", "NOTE"]
        assert shown[1].split()[2:] == ["main", "urn:todo:1", "waits", "on", "the", "train"]
        console.world.network["alice"].online()
        await tx.confirmed()

    in_a_console(scenario)


@pytest.mark.rule("SYNC-5")
def test_a_rejected_write_says_why_and_can_be_tried_again_or_dropped() -> None:
    async def scenario(given: TypedConsole) -> None:
        console, space = given.writing(), given.state.space
        await put(space, _1={"n": 1})
        async with given.world.connect("bob") as db:
            other = await db.space(SPACE)
            for n in (2, 3):
                async with space.transaction() as tx:
                    await tx.get("urn:todo:1")
                    await put(other, _1={"n": n * 10})
                    tx.set("urn:todo:1", {"n": n})
                with pytest.raises(Exception, match="has changed"):
                    await tx.confirmed()
        shown = lines(await console.text("rejected"))
        assert shown[0].startswith("1  conflict")
        assert shown[3] == '   wanted  {"op": "set", "id": "urn:todo:1", "value": {"n": 2}}'
        assert shown[4] == "   stale   urn:todo:1, read at 2, written at 3 by bob …5FAyx4jG"
        assert await console.text("rejected drop 1") == "Dropped. It will not be written."
        assert await console.text("rejected retry 1") == "Written as version 5."
        assert await console.text("rejected") == "Nothing was rejected."
        assert await console.text("get urn:todo:1 /n") == "3"
        assert (await console.error("rejected retry 1")).code == "not_found"
        assert (await console.error("rejected keep 1")).code == "malformed"

    in_a_console(scenario)


# ---------------------------------------------------------------- watching


def test_a_watch_shows_what_is_there_and_then_who_changed_what() -> None:
    async def scenario(world: World) -> None:
        async with console(world) as made, world.connect("bob") as db:
            other = await db.space(SPACE)
            await put(other, _1={"title": "milk", "done": False}, _2=1)
            reply = await made.reply("watch urn:todo:")
            assert reply.stream is not None
            first = await anext(reply.stream)
            assert lines(text_of(first.shapes[0], 80)) == [
                "main@2  2026-09-21 14:14:20  2 entities there",
                '  + urn:todo:1  {"title": "milk", "done": false}',
                "  + urn:todo:2  1",
            ]
            async with other.transaction(note="bought") as tx:
                tx.patch("urn:todo:1", [{"op": "replace", "path": "/done", "value": True}], blind=True)
                tx.set("urn:todo:3", [], blind=True)
                tx.delete("urn:todo:2", blind=True)
            second = await anext(reply.stream)
            assert lines(text_of(second.shapes[0], 80)) == [
                "main@3  2026-09-21 14:14:20  bob …5FAyx4jG  bought",
                "  + urn:todo:3  []",
                "  ~ urn:todo:1",
                "      /done  false -> true",
                "  - urn:todo:2",
            ]
            async with other.transaction() as tx:
                tx.set("urn:todo:1", "another kind", blind=True)
            third = await anext(reply.stream)
            assert lines(text_of(third.shapes[0], 80))[1:] == ['  ~ urn:todo:1  "another kind"']
            await reply.stream.aclose()

    World(seed=5).run(scenario)


def test_an_own_write_that_is_not_decided_is_nobody_elses() -> None:
    async def scenario(world: World) -> None:
        async with console(world) as made, world.connect("bob") as db:
            await put(await db.space(SPACE), "by bob", _1=1)
            reply = await made.reply("watch urn:todo:")
            assert reply.stream is not None
            await anext(reply.stream)
            async with made.state.space.transaction(note="own") as tx:
                tx.set("urn:todo:1", 2)
            own = await anext(reply.stream)
            assert lines(text_of(own.shapes[0], 80)) == ["main@2  2026-09-21 14:14:20", "  ~ urn:todo:1  2"]
            await tx.confirmed()
            await reply.stream.aclose()

    World(seed=5).run(scenario)


def test_a_watch_ends_after_so_many_changes() -> None:
    async def scenario(console: TypedConsole) -> None:
        reply = await console.reply("watch urn:todo:1 --changes 1")
        assert reply.stream is not None
        assert [part.data["entered"] async for part in reply.stream] == [
            {"urn:todo:1": {"title": "write the manual", "done": True}}
        ]

    in_the_story(scenario)


def test_the_past_cannot_be_watched() -> None:
    async def scenario(console: TypedConsole) -> None:
        await console.text("at 3")
        assert "Say 'at head' first" in (await console.error("watch urn:todo:")).message

    in_the_story(scenario)


# ---------------------------------------------------------------- help


def test_help_names_every_command_and_each_has_an_example_that_is_understood() -> None:
    async def scenario(given: TypedConsole) -> None:
        read, write = await given.text("help"), await given.writing().text("help")
        for command in catalogue.COMMANDS.values():
            assert f"\n{command.name} " in write
            assert (f"\n{command.name} " in read) == (not command.writes)
            shown = await given.text(f"help {command.name}")
            assert command.says in shown.replace("\n", " ")
            assert command.usage.split()[0] == command.name
            command.arguments(words.split(command.example)[1:])
            assert all(f"--{option}" in command.usage for option in command.options)

    in_a_console(scenario)


def test_an_empty_line_and_a_comment_do_nothing() -> None:
    async def scenario(console: TypedConsole) -> None:
        for line in ("", "   ", "# get urn:todo:1", "  # 'not closed"):
            reply = await console.reply(line)
            assert not reply.shapes
            assert not reply.data
        assert (await console.reply("exit")).is_over
        assert (await console.reply("quit")).is_over

    in_a_console(scenario)
