"""The table of RPC methods names what its modules really answer."""

import pytest

from openclaw.gateway.local import local_gateway
from openclaw.protocol.connect_request import CallFailed
from openclaw.testing import ScriptedModel, TemporaryHome
from tests.gateway.test_local import environment

pytestmark = pytest.mark.anyio

NEVER: dict[str, bool] = {"noMethodHasThisParameter": True}


async def test_every_advertised_method_is_there_when_it_is_called(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel()
    async with local_gateway(environment(openclaw_home), open_provider=lambda endpoint: model) as client:
        advertised = client.hello["features"]["methods"]
        assert len(advertised) > 130
        for method in (*advertised, "device.pair.setupCode", "device.pair.setupStatus"):
            # Refused for its parameters and for nothing else: whoever answers the method was found and asked.
            with pytest.raises(CallFailed, match=f"invalid {method} params"):
                await client.call(method, NEVER)
