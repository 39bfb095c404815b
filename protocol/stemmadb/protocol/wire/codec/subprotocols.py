"""Which codec speaks which subprotocol."""

from __future__ import annotations

from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.codec.msgpack_codec import Codec, MsgpackCodec
from stemmadb.protocol.wire.version import MSGPACK, Subprotocol


def codec_for(subprotocol: Subprotocol, limits: Limits = DEFAULTS) -> Codec:
    """The codec of a subprotocol with these limits."""
    return MsgpackCodec(limits) if subprotocol == MSGPACK else JsonCodec(limits)
