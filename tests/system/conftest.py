"""One server in this process for each module, and a fresh space on it for each test."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import uvloop

from plain_world import ServedSpace
from served import WORKERS, config_of, served


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that a server runs on; what listens is tested on asyncio's too."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    """The settings of the module's server that are not the default."""
    return {}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, Any]) -> AsyncIterator[str]:
    workers = {"workers": WORKERS, "accept_only": 0} if WORKERS > 1 else {}
    # The path of a Unix socket is short.
    directory = Path(tempfile.mkdtemp(prefix="st")) if WORKERS > 1 else tmp_path_factory.mktemp("served")
    async with served(config_of(directory, **workers, **settings)) as url:
        yield url
    if WORKERS > 1:
        shutil.rmtree(directory)


@pytest.fixture(autouse=True)
def _no_internal_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a client does, the server has no internal error."""
    yield
    records = [*caplog.get_records("setup"), *caplog.get_records("call"), *caplog.get_records("teardown")]
    internal_errors = [record.getMessage() for record in records if record.levelno >= logging.ERROR]
    assert not internal_errors


@pytest.fixture(params=[False, True], ids=["msgpack", "json"])
def text(request: pytest.FixtureRequest) -> bool:
    """Whether the client speaks the JSON subprotocol."""
    given: bool = request.param
    return given


@pytest_asyncio.fixture(loop_scope="module")
async def served_space(address: str) -> AsyncIterator[ServedSpace]:
    """A space with an owner."""
    made = ServedSpace(address)
    await made.found()
    yield made
    await made.close()
