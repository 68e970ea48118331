#!/usr/bin/env python3
"""Drives the official Python SDK (package mcp); person.py says how it is told what to do."""

import json
import ssl

import anyio
import httpx2
from mcp import Client, types
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata

from person import env, leaves, parameters, report, sign_in

url, redirect = env("URL"), env("REDIRECT", "http://127.0.0.1:33418/callback")
statuses = []
challenges = set()


class Memory(TokenStorage):
    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def own_login():
    memory, came = Memory(), {}
    client, secret = env("CLIENT_ID"), env("CLIENT_SECRET")
    if secret:
        return ClientCredentialsOAuthProvider(server_url=url, storage=memory, client_id=client,
                                              client_secret=secret, scope="mcp:use", issuer=env("ISSUER"))
    if client:
        memory.client = OAuthClientInformationFull(client_id=client, redirect_uris=[redirect],
                                                   token_endpoint_auth_method="none", issuer=env("ISSUER"))

    async def open_browser(address):
        came["back"] = await anyio.to_thread.run_sync(lambda: sign_in(address))

    async def callback():
        p = parameters(came["back"])
        if "code" not in p:
            raise RuntimeError(f"the issuer sent no code: {p}")
        return AuthorizationCodeResult(code=p["code"], state=p.get("state"), iss=p.get("iss"))

    metadata = OAuthClientMetadata(client_name="python-sdk", redirect_uris=[redirect],
                                   grant_types=["authorization_code", "refresh_token"],
                                   response_types=["code"], token_endpoint_auth_method="none")
    return OAuthClientProvider(server_url=url, client_metadata=metadata, storage=memory,
                               redirect_handler=open_browser, callback_handler=callback)


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"name": "Ann"})


async def sample(context, params):
    return types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(type="text", text="said"))


async def call(client, name, arguments=None, **options):
    result = await client.call_tool(name, arguments or {}, **options)
    assert not result.is_error, result
    return result.content[0].text


heard = set()
resource = "test://resource"


async def on_message(message):
    match message:
        case types.ToolListChangedNotification():
            heard.add("tools")
        case types.ResourceUpdatedNotification():
            heard.add(f"updated {message.params.uri}")


async def changes(client):
    """Hears of changes in the way of the era: a stream of its own, or a subscription and the session's stream."""
    with anyio.fail_after(20):
        if client.protocol_version < "2026-07-28":
            await client.subscribe_resource(resource)
            await call(client, "change")
            while len(heard) < 2:
                await anyio.sleep(0.05)
            await client.unsubscribe_resource(resource)
        else:
            async with client.listen(tools_list_changed=True, resource_subscriptions=[resource]) as events:
                await call(client, "change")
                async for event in events:
                    heard.add(f"updated {event.uri}" if isinstance(event, ResourceUpdated) else "tools")
                    if len(heard) == 2:
                        break
    print("heard", ", ".join(sorted(heard)))


async def session(client):
    print("protocol", client.protocol_version)
    print("tools", len((await client.list_tools()).tools))
    assert await call(client, "echo", {"text": "hi"}) == "hi"
    first = await call(client, "whoami")
    print("whoami", first)
    steps = []

    async def on_progress(done, total, message):
        steps.append(done)
    await call(client, "progress", progress_callback=on_progress)
    print("progress", len(steps))
    assert len(steps) == 3, steps
    with anyio.move_on_after(1.0) as scope:
        await call(client, "slow", {"seconds": 30})
    assert scope.cancelled_caught
    print(await call(client, "cancellations"))
    print(await call(client, "ask"))
    await changes(client)
    if env("HOLD"):
        await anyio.sleep(float(env("HOLD")))
        again = await call(client, "whoami")
        print("again", again)
        assert again == first, "another process answers: the session was lost"


async def main():
    token = env("TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # What the server says about a refusal; the SDK's own error hides it.
    async def seen(response):
        statuses.append(response.status_code)
        if response.status_code in (401, 403):
            challenges.add(response.headers.get("www-authenticate", "no challenge"))
    async with httpx2.AsyncClient(
            headers=headers, auth=None if token else own_login(), timeout=60,
            verify=ssl.create_default_context(cafile=env("CA")), event_hooks={"response": [seen]}) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=env("MODE", "auto"),
                          elicitation_callback=elicit, sampling_callback=sample, message_handler=on_message) as client:
            await session(client)
    print("OK")


try:
    anyio.run(main)
except Exception as e:
    print("challenges", json.dumps(sorted(challenges)))
    report(e, [s for x in leaves(e) for s in statuses])
