import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ActionRequiredError, Client, WaitTimeoutError } from '../dist/index.js';
import { answering } from './server.mjs';

const REPORT = {
  id: 'r1',
  status: 'RUNNING',
  completedAt: null,
  checkResults: [],
  consentState: { consentUrl: 'https://service.test/c/1' },
  paymentState: { paymentUrl: 'https://service.test/p/1' },
  decision: null,
  proposedDecision: null,
};
const referee = [{ checkName: 'EMPLOYER_VERIFICATION', status: 'RUNNING' }];

async function client(t, ...reports) {
  const server = await answering(t, ...reports.map((more) => ({ body: { ...REPORT, ...more } })));
  return new Client({ apiKey: 'vrf_test_abc', baseUrl: server.url });
}

for (const ended of [
  { status: 'READY' },
  { status: 'FAILED' },
  { status: 'CANCELLED' },
  { status: 'PARTIAL', completedAt: '2026-01-01T00:00:00Z' },
  { status: 'ARCHIVED', completedAt: '2026-01-01T00:00:00Z' },
]) {
  test(`waiting ends with ${ended.status}`, async (t) => {
    const found = await (await client(t, {}, { status: 'PARTIAL' }, ended)).reports.waitUntilCompleted('r1');

    assert.equal(found.status, ended.status);
  });
}

for (const [kind, url, more] of [
  ['launch', undefined, { status: 'DRAFT' }],
  ['consent', 'https://service.test/c/1', { status: 'PENDING_CONSENT' }],
  ['payment', 'https://service.test/p/1', { status: 'PENDING_PAYMENT' }],
  ['reference', undefined, { checkResults: referee, messages: [{ kind: 'REFERENCE_REQUEST' }] }],
  ['decision', undefined, { status: 'READY', proposedDecision: { status: 'APPROVED' } }],
]) {
  test(`waiting for ${kind} is told at once`, async (t) => {
    const waiting = (await client(t, more)).reports.waitUntilCompleted('r1', { decided: kind === 'decision' });

    const error = await waiting.catch((e) => e);

    assert.ok(error instanceof ActionRequiredError);
    assert.deepEqual([error.kind, error.url, error.report.id], [kind, url, 'r1']);
    if (url) assert.ok(error.message.includes(url));
  });
}

test('referee who was not asked is not waited for', async (t) => {
  const open = { checkResults: referee, messages: [] };

  const found = await (await client(t, open, open, { status: 'READY' })).reports.waitUntilCompleted('r1');

  assert.equal(found.status, 'READY');
});

test('decision that comes after the end is waited for', async (t) => {
  const decided = { status: 'READY', decision: { status: 'APPROVED' } };

  const found = await (await client(t, { status: 'READY' }, decided)).reports.waitUntilCompleted('r1', { decided: true });

  assert.equal(found.decision.status, 'APPROVED');
});

test('waiting ends when the time is over', async (t) => {
  const waiting = (await client(t, {})).reports.waitUntilCompleted('r1', { timeoutSeconds: 0.1 });

  await assert.rejects(waiting, (error) => error instanceof WaitTimeoutError && error.report.status === 'RUNNING');
});
