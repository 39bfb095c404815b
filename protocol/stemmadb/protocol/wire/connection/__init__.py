"""Both ends of a connection without I/O: states, handshake, requests and their answers, frames in order.

`ServerSide` and `ClientSide` take received messages and return what to send; `base` is what they share. `problems`
turns errors into messages and back.

Imports `codec`, `messages` and the model.
"""
