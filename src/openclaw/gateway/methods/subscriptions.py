"""`sessions.subscribe` and its kind: what a connection wants to hear."""

from typing import Any

import msgspec

from openclaw.gateway.audience import Connections
from openclaw.gateway.desk import SessionService
from openclaw.gateway.methods.sessions import list_sessions
from openclaw.wire.caller import Caller
from openclaw.wire.params.sessions import (
    SessionsListParams,
    SessionsMessagesSubscribeParams,
    SessionsMessagesUnsubscribeParams,
)
from openclaw.wire.rpc import RpcMethod
from openclaw.wire.scopes import READ

_NOTHING_ASKED = SessionsListParams()


def methods(desk: SessionService, audience: Connections) -> list[RpcMethod]:
    async def subscribe(params: SessionsListParams, caller: Caller) -> Any:
        connection = audience.connection(caller.conn_id)
        if connection is not None:
            connection.follows_sessions = True
        if msgspec.structs.asdict(params) == msgspec.structs.asdict(_NOTHING_ASKED):
            return {"subscribed": True}
        return {"subscribed": True, "list": await list_sessions(desk, params)}

    async def unsubscribe(params: SessionsListParams, caller: Caller) -> Any:
        connection = audience.connection(caller.conn_id)
        if connection is not None:
            connection.follows_sessions = False
        return {"subscribed": False}

    async def follow(params: SessionsMessagesSubscribeParams, caller: Caller) -> Any:
        key = str(desk.key(params.key, params.agent_id))
        connection = audience.connection(caller.conn_id)
        if connection is not None:
            connection.followed.add(key)
        return {"subscribed": True, "key": key}

    async def unfollow(params: SessionsMessagesUnsubscribeParams, caller: Caller) -> Any:
        key = str(desk.key(params.key, params.agent_id))
        connection = audience.connection(caller.conn_id)
        if connection is not None:
            connection.followed.discard(key)
        return {"subscribed": False, "key": key}

    return [
        RpcMethod("sessions.subscribe", SessionsListParams, subscribe, READ),
        RpcMethod("sessions.unsubscribe", SessionsListParams, unsubscribe, READ),
        RpcMethod("sessions.messages.subscribe", SessionsMessagesSubscribeParams, follow, READ),
        RpcMethod("sessions.messages.unsubscribe", SessionsMessagesUnsubscribeParams, unfollow, READ),
    ]
