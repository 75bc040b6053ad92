import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { Client, SignatureError, verify } from '../dist/index.js';
import { answering, problem } from './server.mjs';

const BODY = Buffer.from('{"event":"report.asleep","timestamp":"2026-01-01T00:00:00Z","data":{"é":1},"new":true}');
const NOW = () => Math.floor(Date.now() / 1000);

function signed(secret, { at = NOW(), body = BODY } = {}) {
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : secret;
  const digest = createHmac('sha256', key).update(`e1.${at}.`).update(body).digest('base64');
  return { 'webhook-id': 'e1', 'webhook-timestamp': String(at), 'webhook-signature': `v1,${digest}` };
}

const SECRET = 'correct-horse-battery-staple';

test('webhook is read, with a name and members that are not known', () => {
  const event = verify(BODY, signed(SECRET), SECRET);

  assert.deepEqual(event, {
    id: 'e1',
    event: 'report.asleep',
    timestamp: '2026-01-01T00:00:00Z',
    data: { é: 1 },
    new: true,
  });
});

test('webhook takes every form of body, headers and secret', () => {
  const other = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
  const headers = signed(other);
  const both = { ...headers, 'webhook-signature': `${signed(SECRET)['webhook-signature']} ${headers['webhook-signature']}` };
  const upper = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]));

  for (const given of [headers, both, upper, new Headers(headers)]) {
    assert.equal(verify(BODY.toString(), given, [SECRET, other]).id, 'e1');
  }
  assert.equal(new Client({ apiKey: 'vrf_test_a', baseUrl: 'https://service.test' }).webhooks.verify(BODY, headers, other).id, 'e1');
});

for (const [title, body, headers] of [
  ['another secret', BODY, signed('another secret of mine')],
  ['another body', Buffer.concat([BODY, Buffer.from(' ')]), signed(SECRET)],
  ['another id', BODY, { ...signed(SECRET), 'webhook-id': 'e2' }],
  ['no headers', BODY, {}],
  ['a time that is none', BODY, { ...signed(SECRET), 'webhook-timestamp': '1e9' }],
  ['an old time', BODY, signed(SECRET, { at: NOW() - 600 })],
  ['a time to come', BODY, signed(SECRET, { at: NOW() + 600 })],
  ['a short signature', BODY, { ...signed(SECRET), 'webhook-signature': 'v1,é' }],
]) {
  test(`webhook with ${title} is refused`, () => {
    assert.throws(() => verify(body, headers, SECRET), SignatureError);
  });
}

test('webhook is not verified with an empty secret', () => {
  for (const secrets of ['', 'whsec_', 'whsec_!', [], [SECRET, '']]) {
    assert.throws(() => verify(BODY, signed(SECRET), secrets), { name: 'TypeError', message: /empty/ });
  }
});

test('clock skew within the tolerance is accepted', () => {
  for (const at of [NOW() - 200, NOW() + 200]) assert.equal(verify(BODY, signed(SECRET, { at }), SECRET).id, 'e1');
  assert.equal(verify(BODY, signed(SECRET, { at: 1 }), SECRET, { toleranceSeconds: Infinity }).id, 'e1');
});

test('follower goes from page to page, and tells where to go on', async (t) => {
  const page = (ids, nextCursor, hasMore) => ({
    body: { content: ids.map((id) => ({ id, event: 'report.ready', timestamp: 't', data: {} })), nextCursor, hasMore },
  });
  const server = await answering(
    t,
    page(['a', 'b'], 'c1', true),
    page([], 'c2', true),
    page([], 'c3', false),
    problem(503, 'unavailable'),
    { body: {} },
    page(['c'], 'c4', false),
    page(['d'], 'c5', false),
  );
  const client = new Client({ apiKey: 'vrf_test_a', baseUrl: server.url });

  const [found, stored] = [[], []];
  const options = {
    types: ['report.ready', 'report.failed'],
    since: new Date('2026-01-01T00:00:00Z'),
    store: (cursor) => stored.push(cursor),
    intervalSeconds: 0.01,
  };
  for await (const event of client.events.follow(options)) {
    found.push([event.id, event.cursor]);
    if (event.id === 'c') break;
  }

  assert.deepEqual(found, [['a', undefined], ['b', 'c1'], ['c', 'c4']]);
  assert.deepEqual(stored, ['c1', 'c2', 'c3']);
  const query = server.received.map(({ url }) => Object.fromEntries(new URL(url, server.url).searchParams));
  const filter = { size: '200', types: 'report.ready,report.failed', since: '2026-01-01T00:00:00.000Z' };
  assert.deepEqual(query[0], filter);
  assert.deepEqual(query.slice(1), ['c1', 'c2', 'c3', 'c3', 'c3'].map((cursor) => ({ ...filter, cursor })));

  for await (const event of client.events.follow({ ...options, cursor: 'mine' })) {
    assert.equal(event.id, 'd');
    break;
  }
  assert.match(server.received.at(-1).url, /cursor=mine/);
  assert.doesNotMatch(server.received.at(-1).url, /since/);
});
