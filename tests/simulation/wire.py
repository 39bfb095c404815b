"""The wire: what the server says, in the moment in which it says it, is durable and continues what it said before."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from check_log import Acknowledged
from check_reads import Told
from simulation.history import History
from simulation.states import States
from stemmadb.client.testing import World
from stemmadb.client.testing.link import SimulatedConnection
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.wire.codec.msgpack_codec import Codec, Data
from stemmadb.protocol.wire.codec.subprotocols import codec_for
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict
from stemmadb.protocol.wire.messages.sync import CommitItem, Sync
from stemmadb.protocol.wire.records import fact_of
from stemmadb.protocol.wire.version import SUBPROTOCOLS


class Stream:
    """One connection: its frames go on where the one before ended, each commit once and in order (SYNC-1)."""

    def __init__(self) -> None:
        self._to: Version | None = None
        self._begun: Sync | None = None
        self._last = (0, -1)

    def take(self, part: Sync) -> None:
        if self._begun is None:
            self._begin(part)
        else:
            head = (part.from_, part.to, part.hash)
            assert head == (self._begun.from_, self._begun.to, self._begun.hash), f"a part of another frame: {part}"
        for item in part.commits:
            self._follows(item, part)
        self._begun = part if part.more else None
        self._to = self._to if part.more else part.to

    def _begin(self, part: Sync) -> None:
        assert part.from_ <= part.to, f"a frame goes back: {part}"
        assert part.reset is not None or self._to in (None, part.from_), f"a frame from {part.from_} after {self._to}"
        self._last = (part.from_, -1)

    def _follows(self, item: CommitItem, part: Sync) -> None:
        assert part.from_ < item.version <= part.to, f"{item.version} in a frame from {part.from_} to {part.to}"
        for fact in item.facts:
            place = (item.version, fact.index)
            assert place > self._last, f"{place} is told after {self._last}"
            self._last = place


class Tap:
    """Listens to everything that the server sends."""

    def __init__(self, world: World, states: States) -> None:
        self._states = states
        self._now = world.trace._now
        self._streams: WeakKeyDictionary[SimulatedConnection, Stream] = WeakKeyDictionary()
        self._codecs: dict[str, Codec] = {name: codec_for(name) for name in SUBPROTOCOLS}
        self.frames = 0
        self.acknowledged: list[tuple[int, Told, Acknowledged]] = []
        """Each in its epoch."""
        self.violation: AssertionError | None = None
        """The first one: it is for the run to raise it, and not for the server, which would take it for its own."""
        world.network.on_sent(self.sent)

    def sent(self, link: SimulatedConnection, data: Data) -> None:
        message = self._codecs[link.client.subprotocol].read_server(data)
        if not isinstance(message, Sync):
            return
        self.frames += 1
        try:
            self._streams.setdefault(link, Stream()).take(message)
            self._check(message, self._states.now)
        except AssertionError as violation:
            self.violation = self.violation or violation

    def _check(self, part: Sync, history: History) -> None:
        assert part.to <= history.tip, f"told up to {part.to}, and {history.tip} is durable"
        if part.to:
            assert part.hash == history.commits[part.to - 1].hash, f"told another hash of {part.to}"
        for verdict in part.verdicts:
            if isinstance(verdict, AcceptedVerdict):
                self._acknowledge(verdict, history)
        for item in part.commits:
            self._check_facts(item, history)

    def _acknowledge(self, verdict: AcceptedVerdict, history: History) -> None:
        assert verdict.version <= history.tip, f"{verdict} was told, and only {history.tip} is durable"
        commit = history.commits[verdict.version - 1]
        assert (commit.hash, commit.request) == (verdict.hash, verdict.request), f"{verdict} is not {commit}"
        assert isinstance(commit.identity, LocalIdentity), f"{verdict} is not {commit}"
        assert commit.identity.local == verdict.local, f"{verdict} is not {commit}"
        told = Told(self._now(), verdict.version)
        one = Acknowledged(commit.identity, verdict.version, verdict.hash)
        self.acknowledged.append((self._states.epoch, told, one))

    def _check_facts(self, item: CommitItem, history: History) -> None:
        facts = history.facts[item.version - 1]
        for fact in item.facts:
            told = fact_of(fact, item.version, item.branch)
            assert told.hash == facts[fact.index].hash, f"{fact} was told, and {facts[fact.index]} is durable"
