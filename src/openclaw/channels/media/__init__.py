"""Files and voice on channels, whatever the platform.

`inbound` keeps the files that people send, `outbound` opens those that go out, `fetch` gets the ones that are named by
an address, and `voice` hears and speaks voice notes. Start with `IncomingMedia` and `OutgoingMedia`.
"""
