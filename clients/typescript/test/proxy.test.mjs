import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { test } from 'node:test';
import { EnvHttpProxyAgent, getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { Client } from '../dist/index.js';
import { answering } from './server.mjs';

test('proxy of the environment is used as the README says', async (t) => {
  const tunnels = [];
  const proxy = createServer().on('connect', (request, socket) => {
    const [host, port] = request.url.split(':');
    tunnels.push(request.url);
    const service = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 Connected\r\n\r\n');
      service.pipe(socket).pipe(service);
    });
    for (const one of [service, socket]) one.on('error', () => service.destroy());
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const before = getGlobalDispatcher();
  const server = await answering(t, { body: { environment: 'sandbox' } });
  const httpProxy = `http://127.0.0.1:${proxy.address().port}`;

  const agent = new EnvHttpProxyAgent({ httpProxy, noProxy: '' });
  setGlobalDispatcher(agent);
  t.after(async () => {
    setGlobalDispatcher(before);
    await agent.destroy();
    proxy.close();
  });
  const client = new Client({ apiKey: 'vrf_test_abc', baseUrl: server.url });

  assert.equal((await client.me()).environment, 'sandbox');
  assert.deepEqual(tunnels, [new URL(server.url).host]);
  assert.match(readFileSync('README.md', 'utf8'), /^setGlobalDispatcher\(new EnvHttpProxyAgent\(\)\);$/m);
});
