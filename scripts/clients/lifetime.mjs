// The official TypeScript SDKs and a session's lifetime: progress, cancel, sampling
// and elicitation answered, a GET stream that breaks and is given back, a session that
// ended. SDK=v1 is @modelcontextprotocol/sdk, otherwise @modelcontextprotocol/client.
// URL has two servers: /mcp with the worker of scripts/chaos, /every with the Go SDK's
// everything-server. MODULES is the folder the SDKs are installed in.
import { createRequire } from 'node:module';
import net from 'node:net';
import path from 'node:path';

const E = process.env, v1 = E.SDK === 'v1';
const req = createRequire(path.join(E.MODULES, 'package.json'));
const m = v1
  ? { ...req('@modelcontextprotocol/sdk/client/index.js'), ...req('@modelcontextprotocol/sdk/client/streamableHttp.js'), ...req('@modelcontextprotocol/sdk/types.js') }
  : req('@modelcontextprotocol/client');
const target = new URL(E.URL);
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const want = (ok, what) => { if (!ok) throw new Error(what); console.log('ok    ' + what); };

// A wire that can swallow what the server sends, and break.
const wires = new Set();
let swallow = false;
const wire = net.createServer((c) => {
  const s = net.connect(Number(target.port), target.hostname);
  wires.add(c);
  // The server answers to its own port alone.
  c.on('data', (b) => s.write(Buffer.from(b.toString('latin1').replace(/^(host: 127\.0\.0\.1):\d+/im, `$1:${target.port}`), 'latin1')));
  s.on('data', (b) => { if (!swallow) c.write(b); });
  for (const [a, b] of [[c, s], [s, c]]) { a.on('error', () => {}); a.on('close', () => { wires.delete(c); b.destroy(); }); }
});
await new Promise((r) => wire.listen(0, '127.0.0.1', r));
const cut = () => { for (const c of wires) c.destroy(); };

async function connect(where, capabilities = {}, handlers = () => {}) {
  const transport = new m.StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${wire.address().port}${where}`));
  const client = new m.Client({ name: 'lifetime', version: '1' }, { capabilities, ...(v1 ? {} : { versionNegotiation: { mode: 'legacy' } }) });
  handlers(client);
  await client.connect(transport);
  return [client, transport];
}

const call = (client, name, args = {}, options) => {
  const params = { name, arguments: args };
  return v1 ? client.callTool(params, undefined, options) : client.callTool(params, options);
};
// raw has the worker do something, past the wire and the SDK.
const raw = (transport, method, body) => fetch(new URL('/mcp', target), {
  method, body, headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'Mcp-Session-Id': transport.sessionId },
});
const changed = (t) => raw(t, 'POST', '{"jsonrpc":"2.0","id":"raw","method":"tools/call","params":{"name":"changed","arguments":{"text":"x"}}}').then((r) => r.text());
const on = (client, schema, name, f) => v1 ? client.setRequestHandler(m[schema], f) : client.setRequestHandler(name, f);

{
  const [client] = await connect('/every', { sampling: {}, elicitation: {} }, (c) => {
    on(c, 'CreateMessageRequestSchema', 'sampling/createMessage', async () => ({ model: 'none', role: 'assistant', content: { type: 'text', text: 'sampled-here' } }));
    on(c, 'ElicitRequestSchema', 'elicitation/create', async () => ({ action: 'accept', content: { username: 'elicited-here', email: 'a@example.org' } }));
  });
  let steps = 0;
  await call(client, 'test_tool_with_progress', {}, { onprogress: () => { steps++; } });
  want(steps >= 2, 'progress');
  want(JSON.stringify(await call(client, 'test_sampling', { prompt: 'x' })).includes('sampled-here'), 'sampling is answered');
  want(JSON.stringify(await call(client, 'test_elicitation', { message: 'x' })).includes('elicited-here'), 'elicitation is answered');
  await client.close();
}
{
  let count = 0;
  const note = () => { count++; };
  const [client, transport] = await connect('/mcp', {}, (c) => v1
    ? c.setNotificationHandler(m.ToolListChangedNotificationSchema, note) : c.setNotificationHandler('notifications/tools/list_changed', note));
  await sleep(500);
  await changed(transport);
  await sleep(300);
  want(count === 1, 'a message on the GET stream');
  swallow = true; // what is sent now is lost on the way
  await changed(transport);
  await sleep(300);
  cut();
  swallow = false;
  for (let i = 0; i < 100 && count < 2; i++) await sleep(100);
  want(count === 2, 'the message that was lost with its stream is given back after a reconnect');
  await changed(transport);
  await sleep(1000);
  want(count === 3, 'and each only once');
  const abort = new AbortController();
  setTimeout(() => abort.abort('enough'), 200);
  const ended = await call(client, 'slow', { text: 'x', ms: 5000 }, { signal: abort.signal }).catch(() => 'cancelled');
  want(ended === 'cancelled', 'cancel');
  want(JSON.stringify(await call(client, 'echo', { text: 'still here' })).includes('still here'), 'the session lives on after it');
  await raw(transport, 'DELETE');
  const gone = await call(client, 'echo', { text: 'x' }).catch((e) => String(e.message ?? e) + ' ' + (e.code ?? ''));
  want(typeof gone === 'string' && /404|not found/i.test(gone), 'a session that ended is 404 to the client');
  const [again] = await connect('/mcp');
  want(JSON.stringify(await call(again, 'echo', { text: 'anew' })).includes('anew'), 'which begins anew');
  await again.close();
}
process.exit(0);
