"""Devices that connect to the gateway: identity and pairing.

`signature` has a device's own key pair and id (`DeviceIdentity`); `pairing.DevicePairing` stores requests, approved
devices and token hashes in the database, and `SetupCodes` the one-time codes; `device.*` methods are in `rpc`.

Start with `pairing.DevicePairing`.
"""
