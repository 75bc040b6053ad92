import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Client, ConnectionError, ProblemError } from '../dist/index.js';
import { answering, problem } from './server.mjs';

const apiKey = 'vrf_test_0123456789abcdefghijklmnopqrstuv';
const ORDER = { subject: { subjectType: 'INDIVIDUAL' }, checksRequested: ['IDENTITY'], purpose: 'Loan' };
const CREATED = { status: 201, body: { count: 1, reports: [{ id: 'r1', status: 'RUNNING' }] } };

setFlagsFromString('--expose-gc');

const connect = (server, options = {}) => new Client({ apiKey, baseUrl: server.url, ...options });

test('client reads environment and address, and refuses wrong ones', async (t) => {
  const server = await answering(t, { body: { environment: 'sandbox' } });
  const client = new Client({ apiKey: ` ${apiKey}\n`, baseUrl: `${server.url}/api/v1/` });

  assert.equal(client.environment, 'sandbox');
  assert.equal(new Client({ apiKey: 'vrf_live_abc', baseUrl: server.url }).environment, 'production');
  assert.deepEqual(await client.me(), { environment: 'sandbox' });
  assert.equal(server.received[0].url, '/api/v1/me');
  assert.equal(server.received[0].headers.authorization, `Bearer ${apiKey}`);
  assert.match(server.received[0].headers['user-agent'], /^verification-reports-typescript\/\d/);
  assert.throws(() => new Client({ apiKey: 'sk_1', baseUrl: server.url }), /vrf_test_/);
  assert.throws(() => new Client({ apiKey, baseUrl: 'service.test' }), /https/);
});

for (const [title, refusal] of [
  ['429', problem(429, 'rate-limited')],
  ['503', problem(503, 'unavailable')],
  ['502 of a proxy', { status: 502, body: '<html>', headers: { 'Content-Type': 'text/html' } }],
  ['an answer that is cut off', { ...CREATED, cutAt: 10 }],
  ['JSON that is cut off', { status: 201, body: '{"count": 1, "rep' }],
  ['JSON that is no object', { status: 201, body: 'null' }],
  ['an answer without the order', { status: 201, body: { count: 0, reports: [] } }],
  ['a page of a proxy', { body: '<html>', headers: { 'Content-Type': 'text/html' } }],
  ['a plain text of a proxy', { body: 'OK', headers: { 'Content-Type': 'text/plain' } }],
  ['an answer without a type', { status: 202, body: '', headers: { 'Content-Type': '' } }],
  ['a first attempt that is still at work', problem(409, 'idempotency-in-progress')],
]) {
  test(`order is repeated with the same key after ${title}`, async (t) => {
    const server = await answering(t, refusal, CREATED);

    const order = await connect(server).reports.create(ORDER);

    assert.equal(order.id, 'r1');
    assert.equal(server.received.length, 2);
    const [first, second] = server.received;
    assert.equal(first.headers['idempotency-key'].length, 36);
    assert.equal(second.headers['idempotency-key'], first.headers['idempotency-key']);
    assert.equal(second.body, first.body);
    assert.deepEqual(JSON.parse(first.body), { reports: [ORDER] });
  });
}

for (const [title, answer] of [
  ['never comes', { silent: true }],
  ['stalls', { ...CREATED, stallsAt: 10 }],
]) {
  test(`attempt ends in time when garbage is collected while its answer ${title}`, { timeout: 10_000 }, async (t) => {
    const server = await answering(t, answer);
    const collecting = setInterval(runInNewContext('gc'), 20);
    t.after(() => clearInterval(collecting));

    const order = connect(server, { timeoutSeconds: 0.5, maxRetries: 0 }).reports.create(ORDER);

    await assert.rejects(order, (error) => error instanceof ConnectionError && error.mayHaveHappened);
  });
}

test('answer may take longer than the timeout while its pieces arrive', async (t) => {
  const lines = { body: '{"id":1}\n', headers: { 'Content-Type': 'application/jsonl' }, slow: 200 };
  const server = await answering(t, lines);

  const exported = connect(server, { timeoutSeconds: 1.5, maxRetries: 0 }).exports.reports({ from: '2026-01-01', to: '2026-01-31' });

  assert.equal(await exported, lines.body);
});

test('order takes a key of the program', async (t) => {
  const server = await answering(t, CREATED);

  await connect(server).reports.create(ORDER, { idempotencyKey: 'loan-1' });

  assert.equal(server.received[0].headers['idempotency-key'], 'loan-1');
});

for (const [title, answer, kind] of [
  ['an answer that is cut off', { status: 200, body: { id: 'r1' }, cutAt: 5 }, ConnectionError],
  ['500', problem(500, 'internal-error'), ProblemError],
  ['503', problem(503, 'unavailable'), ProblemError],
  ...[502, 503, 504].map((status) => [`${status} of a proxy`, { status, body: '<html>' }, ProblemError]),
]) {
  test(`launch is not repeated after ${title}, as it may have happened`, async (t) => {
    const server = await answering(t, answer);

    const error = await connect(server).reports.launch('r1').catch((e) => e);

    assert.ok(error instanceof kind);
    assert.equal(error.name, kind.name);
    assert.equal(error.mayHaveHappened, true);
    assert.equal(server.received.length, 1);
  });
}

for (const refusal of [problem(503, 'overloaded'), problem(429, 'rate-limited')]) {
  test(`launch is repeated after ${refusal.body.code}, as the service has done nothing`, async (t) => {
    const server = await answering(t, refusal, { body: { id: 'r1' } }, refusal);

    assert.equal((await connect(server).reports.launch('r1')).id, 'r1');
    await assert.rejects(connect(server, { maxRetries: 0 }).reports.launch('r1'), { mayHaveHappened: false });
  });
}

test('refused retry says that an earlier attempt may have happened', async (t) => {
  const server = await answering(t, problem(503, 'unavailable'), problem(429, 'rate-limited'));

  await assert.rejects(connect(server, { maxRetries: 1 }).reports.create(ORDER), { status: 429, mayHaveHappened: true });
});

test('Retry-After is waited for, and not if it is long', async (t) => {
  const late = problem(429, 'rate-limited');
  const server = await answering(t, { ...late, headers: { ...late.headers, 'Retry-After': '1' } }, { body: { id: 'r1', checkResults: [] } });
  const start = performance.now();
  await connect(server).reports.get('r1');
  assert.ok(performance.now() - start > 990);

  const soon = new Date(Date.now() + 3_600_000).toUTCString();
  const closed = await answering(t, { ...late, headers: { ...late.headers, 'Retry-After': soon } });
  const error = await connect(closed).reports.get('r1').catch((e) => e);
  assert.ok(error.retryAfter > 3500);
  assert.equal(closed.received.length, 1);
});

test('attempts are bounded', async (t) => {
  const server = await answering(t, problem(503, 'unavailable'));

  await assert.rejects(connect(server, { maxRetries: 1 }).reports.get('r1'), { status: 503 });

  assert.equal(server.received.length, 2);
});

test('service that cannot be reached is named', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const baseUrl = `http://127.0.0.1:${server.address().port}`;
  await new Promise((done) => server.close(done));
  const client = new Client({ apiKey, baseUrl, maxRetries: 0 });

  await assert.rejects(client.me(), (error) => error instanceof ConnectionError && !error.mayHaveHappened);
});

test('silent service and an aborted request end', async (t) => {
  const server = await answering(t, { silent: true });

  await assert.rejects(connect(server, { timeoutSeconds: 0.1, maxRetries: 0 }).me(), ConnectionError);
  await assert.rejects(connect(server).me({ signal: AbortSignal.timeout(100) }), { name: 'TimeoutError' });
});

test('wrong key is a problem, at once', async (t) => {
  const server = await answering(t, problem(401, 'invalid-api-key'));

  const error = await connect(server).me().catch((e) => e);

  assert.ok(error instanceof ProblemError);
  assert.equal(error.name, 'ProblemError');
  assert.deepEqual([error.status, error.code, error.requestId], [401, 'invalid-api-key', 'r-1']);
  assert.equal(error.type, 'https://service.test/problems/invalid-api-key');
  assert.equal(error.message, `401 invalid-api-key: Why (request r-1, see ${error.type})`);
  assert.equal(server.received.length, 1);
});

test('problem points to each fault', async (t) => {
  const errors = [
    { pointer: '#/reports/0/purpose', code: 'required', detail: 'Missing' },
    { parameter: 'size', code: 'out-of-range', detail: 'Large' },
    'an entry of a newer server',
  ];
  const server = await answering(t, problem(400, 'validation-failed', { errors, newMember: [1] }));

  const error = await connect(server).reports.create(ORDER).catch((e) => e);

  assert.deepEqual(error.pointers, ['#/reports/0/purpose', 'size', '']);
  assert.deepEqual(error.faults[0], { place: '#/reports/0/purpose', code: 'required', detail: 'Missing' });
  assert.deepEqual(error.body.newMember, [1]);
});

test('answer of a proxy that is no problem is told', async (t) => {
  const moved = await answering(t, { status: 301, body: '', headers: { Location: 'https://service.test/' } });

  await assert.rejects(connect(moved).reports.launch('r1'), { status: 301, detail: 'https://service.test/' });
});

test('unknown members and values are kept', async (t) => {
  const body = { id: 'r1', status: 'SLEEPING', riskLevel: 'EXTREME', newMember: { a: [null] }, checkResults: [{ status: 'NEW' }] };
  const server = await answering(t, { body });

  assert.deepEqual(await connect(server).reports.get('r1'), body);
});

test('pages are one list without repetitions', async (t) => {
  const page = (ids, last) => ({ body: { content: ids.map((id) => ({ id })), last } });
  const server = await answering(t, page(['a', 'b'], false), { body: {} }, page(['b', 'c'], true));

  const found = [];
  for await (const report of connect(server).reports.iterate({ status: 'READY', size: 2 })) found.push(report.id);

  assert.deepEqual(found, ['a', 'b', 'c']);
  assert.deepEqual(server.received.map(({ url }) => url), [0, 1, 1].map((n) => `/api/v1/reports?status=READY&size=2&page=${n}`));
});

test('report without its checks is no answer', async (t) => {
  const server = await answering(t, { body: {} });

  await assert.rejects(connect(server, { maxRetries: 0 }).reports.waitUntilCompleted('r1'), ConnectionError);
});

test('path is encoded', async (t) => {
  const server = await answering(t, { body: { checkResults: [] } });

  await connect(server).reports.get('../me?x');

  assert.equal(server.received[0].url, '/api/v1/reports/..%2Fme%3Fx');
});

test('404 ends a delete when an earlier attempt may have happened', async (t) => {
  const gone = problem(404, 'not-found');
  const server = await answering(t, { status: 502, body: '<html>' }, gone, gone, { status: 502, body: '<html>' }, gone);
  const client = connect(server);

  assert.equal(await client.webhooks.deleteConfiguration(), undefined);
  await assert.rejects(client.webhooks.deleteConfiguration(), { status: 404 });
  await assert.rejects(client.reports.eraseSubject('r1'), { status: 404 });
});

test('files and empty answers are read', async (t) => {
  const pdf = { body: '%PDF-1.7', headers: { 'Content-Type': 'application/pdf' } };
  const lines = { body: '{"id":"a"}\n{"id":"b"}\n', headers: { 'Content-Type': 'application/jsonl' } };
  const server = await answering(t, pdf, lines, { status: 204, body: '' });
  const client = connect(server);

  assert.equal(await (await client.reports.getPdf('r1')).text(), '%PDF-1.7');
  assert.equal(await client.exports.reports({ from: '2026-01-01', to: '2026-01-31' }), lines.body);
  assert.equal(await client.webhooks.deleteConfiguration(), undefined);
});
