// Drives the official TypeScript SDKs: SDK=v1 is @modelcontextprotocol/sdk,
// otherwise @modelcontextprotocol/client. MODULES is the folder they are
// installed in; person.py says how the rest is told.
import { createRequire } from 'node:module';
import { execFileSync } from 'node:child_process';
import path from 'node:path';

const E = process.env, v1 = E.SDK === 'v1';
const req = createRequire(path.join(E.MODULES, 'package.json'));
const m = v1
  ? { ...req('@modelcontextprotocol/sdk/client/index.js'), ...req('@modelcontextprotocol/sdk/client/streamableHttp.js'), ...req('@modelcontextprotocol/sdk/client/auth-extensions.js') }
  : req('@modelcontextprotocol/client');
const redirect = E.REDIRECT ?? 'http://127.0.0.1:33418/callback';
const login = path.join(path.dirname(new URL(import.meta.url).pathname), '../keycloak/login.py');

// What the client keeps between its steps; an application stores this.
let authorizeURL, tokens, verifier;
let information = E.CLIENT_ID ? { client_id: E.CLIENT_ID, issuer: E.ISSUER } : undefined;
const provider = E.CLIENT_SECRET
  ? new m.ClientCredentialsProvider({ clientId: E.CLIENT_ID, clientSecret: E.CLIENT_SECRET, scope: 'mcp:use', expectedIssuer: E.ISSUER })
  : {
    redirectUrl: redirect,
    clientMetadata: { client_name: 'typescript', redirect_uris: [redirect], grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], token_endpoint_auth_method: 'none' },
    clientInformation: () => information, saveClientInformation: (i) => { information = i; },
    tokens: () => tokens, saveTokens: (t) => { tokens = t; },
    codeVerifier: () => verifier, saveCodeVerifier: (v) => { verifier = v; },
    redirectToAuthorization: (u) => { authorizeURL = String(u); },
    state: () => 'state-of-the-test',
  };

const heard = new Set();

function make() {
  const options = E.TOKEN ? { requestInit: { headers: { Authorization: `Bearer ${E.TOKEN}` } } } : { authProvider: provider };
  const transport = new m.StreamableHTTPClientTransport(new URL(E.URL), options);
  const capabilities = { elicitation: {}, sampling: {} };
  const client = new m.Client({ name: 'typescript', version: '1' }, v1 ? { capabilities } : { capabilities, versionNegotiation: { mode: E.MODE ?? 'auto' } });
  const t = v1 ? req('@modelcontextprotocol/sdk/types.js') : {};
  client.setRequestHandler(v1 ? t.ElicitRequestSchema : 'elicitation/create', () => ({ action: 'accept', content: { name: 'Ann' } }));
  client.setNotificationHandler(v1 ? t.ToolListChangedNotificationSchema : 'notifications/tools/list_changed', () => { heard.add('tools'); });
  client.setNotificationHandler(v1 ? t.ResourceUpdatedNotificationSchema : 'notifications/resources/updated', (n) => { heard.add('updated ' + n.params.uri); });
  client.setRequestHandler(v1 ? t.CreateMessageRequestSchema : 'sampling/createMessage', () => ({ role: 'assistant', model: 'm', content: { type: 'text', text: 'said' } }));
  return [client, transport];
}

// connect goes to the issuer when the client asks for it, as a browser would.
async function connect() {
  let [client, transport] = make();
  try {
    await client.connect(transport);
    return [client, transport];
  } catch (e) {
    if (!authorizeURL) throw e;
  }
  const asked = new URL(authorizeURL).searchParams;
  if (asked.get('code_challenge_method') !== 'S256') throw new Error('the client asks without PKCE S256');
  console.log('asks for', asked.get('scope'), 'resource', asked.get('resource'), 'as', asked.get('client_id'));
  const back = new URL(execFileSync('python3', [login, 'follow', authorizeURL, E.SIGN_IN],
    { encoding: 'utf8', input: E.PASSWORD + '\n', env: { ...E, MCP_ISSUER_CA: E.CA } }).trim());
  if (!back.searchParams.get('code')) throw new Error('the issuer sent no code: ' + back.search);
  await transport.finishAuth(v1 ? back.searchParams.get('code') : back.searchParams);
  [client, transport] = make();
  await client.connect(transport);
  return [client, transport];
}

const call = async (client, name, args = {}, options = undefined) => {
  const params = { name, arguments: args };
  const r = await (v1 ? client.callTool(params, undefined, options) : client.callTool(params, options));
  if (r.isError) throw new Error(name + ': ' + JSON.stringify(r.content));
  return r.content[0].text;
};

// changes hears of them in the way of the era: a stream of its own, or a
// subscription and the session's stream.
async function changes(client) {
  const uri = 'test://resource', modern = !v1 && client.getNegotiatedProtocolVersion() >= '2026-07-28';
  const stream = modern ? await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] }) : await client.subscribeResource({ uri });
  await call(client, 'change');
  for (let i = 0; heard.size < 2 && i < 200; i++) await new Promise((r) => setTimeout(r, 50));
  if (modern) await stream.close();
  else await client.unsubscribeResource({ uri });
  console.log('heard', [...heard].sort().join(', '));
}

async function session(client) {
  console.log('tools', (await client.listTools()).tools.length);
  if (await call(client, 'echo', { text: 'hi' }) !== 'hi') throw new Error('echo');
  const first = await call(client, 'whoami');
  console.log('whoami', first);
  const steps = [];
  await call(client, 'progress', {}, { onprogress: (p) => steps.push(p.progress) });
  console.log('progress', steps.length);
  if (steps.length !== 3) throw new Error('progress: ' + steps);
  const abort = new AbortController();
  setTimeout(() => abort.abort('enough'), 1000);
  const ended = await call(client, 'slow', { seconds: 30 }, { signal: abort.signal }).catch(() => 'cancelled');
  if (ended !== 'cancelled') throw new Error('the call was not cancelled');
  console.log(await call(client, 'cancellations'));
  console.log(await call(client, 'ask'));
  await changes(client);
  if (E.HOLD) {
    await new Promise((r) => setTimeout(r, 1000 * E.HOLD));
    const again = await call(client, 'whoami');
    console.log('again', again);
    if (again !== first) throw new Error('another process answers: the session was lost');
  }
}

try {
  const [client, transport] = await connect();
  await session(client);
  await transport.terminateSession(); // close() alone leaves the session to its time limit
  await client.close();
  console.log('OK');
} catch (e) {
  const name = e?.constructor?.name, status = e?.status ?? e?.data?.status ?? e?.code ?? e?.cause?.status;
  console.log(`ERROR ${name}: ${String(e?.message ?? e).slice(0, 600)} (status ${status})`, e?.cause?.message ?? '');
  process.exit([401, 403].includes(status) || ['InsufficientScopeError', 'UnauthorizedError'].includes(name) ? 3 : 1);
}
