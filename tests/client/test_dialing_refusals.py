"""Every way in which a server cannot be reached ends in `Unreachable`, in time and in plain words."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from listening import certificate, patiently
from misbehaving import Manner, RawConnection, misbehaving
from space import SPACE
from stemmadb.client.dialing.failures import unreachable
from stemmadb.client.dialing.urls import server_url
from stemmadb.client.dialing.websocket import WebSocketDial
from stemmadb.protocol.errors import Malformed, Unreachable


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    folder: Path = tmp_path_factory.mktemp("certificate")
    return certificate(folder)


async def refusal(url: str, *, open_timeout: float = 15.0, context: ssl.SSLContext | None = None) -> str:
    """Why this address cannot be reached; nothing is left behind."""
    dial = WebSocketDial(url, open_timeout=open_timeout, ssl=context)
    with pytest.raises(Unreachable) as failed:
        await patiently(dial(SPACE))
    assert failed.value.retriable
    assert failed.value.facts["url"] == url
    assert failed.value.message.startswith(f"{url} cannot be reached: {failed.value.facts['why']}. Check the address")
    return str(failed.value.facts["why"])


async def refused_by(manner: Manner, *, open_timeout: float = 15.0) -> str:
    async with misbehaving(manner) as port:
        return await refusal(f"ws://127.0.0.1:{port}", open_timeout=open_timeout)


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_where_nothing_listens(host: str) -> None:
    assert await refusal(f"ws://{host}:{closed_port()}") == "nothing listens there (the connection was refused)"


def test_several_addresses_that_refuse_are_one_refusal() -> None:
    one, other = "[Errno 111] Connect call failed ('::1', 1)", "[Errno 111] Connect call failed ('127.0.0.1', 1)"
    why = unreachable(server_url("ws://h"), OSError(f"Multiple exceptions: {one}, {other}"), timeout=1).facts["why"]
    assert why == "nothing listens there (the connection was refused)"
    mixed = f"Multiple exceptions: [Errno 101] Network is unreachable, {other}"
    assert "Network is unreachable" in unreachable(server_url("ws://h"), OSError(mixed), timeout=1).message


def test_a_host_whose_name_is_not_known() -> None:
    failure = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert unreachable(server_url("ws://h"), failure, timeout=1).facts["why"] == "the name of its host is not known"


async def test_a_server_that_never_answers() -> None:
    assert await refused_by(RawConnection.stay, open_timeout=0.05) == "there was no answer within 0.05 s"


async def test_a_server_that_hangs_up_at_once() -> None:
    async def hang_up(connection: RawConnection) -> None:
        await connection.read_head()

    why = await refused_by(hang_up)
    assert why == "the connection was closed before it was answered; with TLS the address begins with wss://"


async def test_a_stranger_who_talks_first_and_stays_is_not_waited_for() -> None:
    async def talk(connection: RawConnection) -> None:
        connection.writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        await connection.stay()

    why = await refused_by(talk)
    assert why == "what answers there is not a StemmaDB server; with TLS the address begins with wss://"


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        ("400 Bad Request", "No such DID.\n", "the server did not understand the request (400): No such DID"),
        ("401 Unauthorized", "", "something before the server wants a login (401)"),
        ("403 Forbidden", "Not from here.", "the server turns this client away (403): Not from here"),
        ("404 Not Found", "Nothing.", "there is a server, but no StemmaDB at this address (404): Nothing"),
        ("429 Too Many Requests", "", "the server has too many connections from here (429)"),
        ("503 Service Unavailable", "It is full.", "the server takes no more connections now (503): It is full"),
        ("502 Bad Gateway", "", "a proxy answers, but the server behind it does not (502)"),
        ("418 I'm a teapot", "", "what answers there is not a StemmaDB server (it answered 418 I'm a teapot)"),
        ("200 OK", "hello", "what answers there is not a StemmaDB server (it answered 200 OK): hello"),
        ("200 ", "", "what answers there is not a StemmaDB server (it answered 200)"),
        ("404 Not Found", "x" * 201, "there is a server, but no StemmaDB at this address (404)"),
        ("404 Not Found", "two\nlines", "there is a server, but no StemmaDB at this address (404)"),
    ],
)
async def test_a_plain_answer_tells_its_status_and_its_sentence(status: str, body: str, why: str) -> None:
    async def answer(connection: RawConnection) -> None:
        await connection.answer(status, body)
        await connection.until_gone()

    assert await refused_by(answer) == why


async def test_a_page_of_html_is_not_shown() -> None:
    async def answer(connection: RawConnection) -> None:
        await connection.answer("404 Not Found", "<h1>Oh no</h1>", kind="text/html")
        await connection.until_gone()

    assert await refused_by(answer) == "there is a server, but no StemmaDB at this address (404)"


async def test_a_page_without_an_end_is_not_read_to_its_end() -> None:
    async def answer(connection: RawConnection) -> None:
        await connection.answer("200 OK", more="Transfer-Encoding: chunked\r\n")
        while True:
            connection.writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            await connection.writer.drain()

    assert "not a StemmaDB server" in await refused_by(answer)


async def test_moves_are_told_and_not_followed() -> None:
    came = 0

    async def move(connection: RawConnection) -> None:
        nonlocal came
        came += 1
        port = connection.writer.get_extra_info("sockname")[1]
        await connection.answer("301 Moved Permanently", more=f"Location: ws://127.0.0.1:{port}/elsewhere\r\n")
        await connection.until_gone()

    why = await refused_by(move)
    assert why.startswith("it has moved to ws://127.0.0.1:")
    assert why.endswith("/elsewhere (301), and moves are not followed")
    assert came == 1


@pytest.mark.parametrize(
    "header", [{"Sec_WebSocket_Accept": "bm8="}, {"Upgrade": "h2c"}, {"Sec_WebSocket_Protocol": "stemma.v9"}]
)
async def test_a_wrong_handshake_is_that_of_a_stranger(header: dict[str, str]) -> None:
    async def shake(connection: RawConnection) -> None:
        await connection.upgrade(**header)
        await connection.until_gone()

    assert (await refused_by(shake)).startswith("what answers there is not a StemmaDB server (")


@pytest.mark.rule("WIRE-1")
async def test_a_websocket_without_our_subprotocol_is_not_used() -> None:
    hung_up = asyncio.Event()

    async def shake(connection: RawConnection) -> None:
        await connection.upgrade(Sec_WebSocket_Protocol=None)
        await connection.until_gone()
        hung_up.set()

    async with misbehaving(shake) as port:
        why = await refusal(f"ws://127.0.0.1:{port}")
        await patiently(hung_up.wait())
    assert why == "what answers there is not a StemmaDB server, or one that does not speak stemma.v1.msgpack"


async def test_a_certificate_that_nobody_vouches_for(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async with misbehaving(RawConnection.until_gone, context=contexts[0]) as port:
        why = await refusal(f"wss://127.0.0.1:{port}")
    assert why.startswith("its certificate is not trusted (self-signed certificate")


async def test_tls_where_none_is_spoken(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async def answer(connection: RawConnection) -> None:
        await connection.reader.read(1)
        connection.writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await connection.until_gone()

    async with misbehaving(answer) as port:
        why = await refusal(f"wss://127.0.0.1:{port}", context=contexts[1])
    assert why == "it does not speak TLS there; without it the address begins with ws://"


async def test_no_tls_where_it_is_spoken(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async with misbehaving(RawConnection.until_gone, context=contexts[0]) as port:
        why = await refusal(f"ws://127.0.0.1:{port}")
    assert why.endswith("; with TLS the address begins with wss://")


async def test_a_server_that_knows_no_tls_version_of_ours(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async def object_(connection: RawConnection) -> None:
        await connection.reader.read(1)
        connection.writer.write(bytes.fromhex("15 0303 0002 02 46"))  # an alert: protocol_version
        await connection.until_gone()

    async with misbehaving(object_) as port:
        why = await refusal(f"wss://127.0.0.1:{port}", context=contexts[1])
    assert why == "TLS could not be agreed on (TLSV1_ALERT_PROTOCOL_VERSION)"


def test_a_context_for_an_address_without_tls_is_an_internal_error() -> None:
    with pytest.raises(Malformed, match="'ssl' was given for ws://h"):
        WebSocketDial("ws://h", ssl=ssl.create_default_context())


def test_a_wrong_address_is_told_before_anything_is_dialed() -> None:
    with pytest.raises(Malformed, match="Write 'ws://' for 'http://'"):
        WebSocketDial("http://127.0.0.1:8420")


async def test_an_attempt_that_is_cancelled_hangs_up() -> None:
    came, hung_up = asyncio.Event(), asyncio.Event()

    async def wait(connection: RawConnection) -> None:
        await connection.read_head()
        came.set()
        await connection.until_gone()
        hung_up.set()

    async with misbehaving(wait) as port:
        attempt = asyncio.ensure_future(WebSocketDial(f"ws://127.0.0.1:{port}")(SPACE))
        await patiently(came.wait())
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        await patiently(hung_up.wait())


async def test_a_proxy_that_refuses_is_named() -> None:
    async def refuse(connection: RawConnection) -> None:
        await connection.answer("407 Proxy Authentication Required")
        await connection.until_gone()

    async with misbehaving(refuse) as port:
        dial = WebSocketDial("ws://db.example", proxy=f"http://127.0.0.1:{port}")
        with pytest.raises(Unreachable, match="the proxy does not let it through"):
            await patiently(dial(SPACE))


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("no_proxy", "")

    async def answer(connection: RawConnection) -> None:
        await connection.answer("404 Not Found")
        await connection.until_gone()

    assert "(404)" in await refused_by(answer)
