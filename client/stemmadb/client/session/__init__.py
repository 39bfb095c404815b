"""A session on one space: sends commits, and receives frames, over any number of connections.

`session.ClientSession` joins the nursery, the journal and the connection; `link.ServerLink` reconnects and
`connection_pump.ConnectionPump` moves the messages of one connection. `requester` and `request_queue` ask the server,
`subscriptions` are the watches, and `notifier` reports verdicts to the app.
"""
