import { createHmac, timingSafeEqual } from 'node:crypto';
import { SignatureError } from './errors.js';

/** An event. `id` is the same each time that it arrives; names of events may be new ones. */
export interface Event {
  id: string;
  event: string;
  timestamp: string;
  data: Record<string, unknown>;
}

type HeaderValues = { get(name: string): string | null } | Record<string, string | string[] | undefined>;

/**
 * Returns the event of a request to your receiver, or throws `SignatureError`.
 *
 * `body` is the bytes as they arrived. Give both secrets while you change yours.
 */
export function verify(
  body: string | Uint8Array,
  headers: HeaderValues,
  secret: string | readonly string[],
  { toleranceSeconds = 300 }: { toleranceSeconds?: number } = {},
): Event {
  const id = header(headers, 'webhook-id');
  const sent = header(headers, 'webhook-timestamp');
  const signatures = header(headers, 'webhook-signature').split(' ').filter(Boolean);
  if (!id || !signatures.length || !/^\d{1,15}$/.test(sent)) {
    throw new SignatureError('the request has no signature of Standard Webhooks');
  }
  if (Math.abs(Date.now() / 1000 - Number(sent)) > toleranceSeconds) {
    throw new SignatureError('the signature is too old, or a clock is wrong');
  }
  const secrets = typeof secret === 'string' ? [secret] : secret;
  const keys = secrets.map(keyOf);
  if (!keys.length || keys.some((key) => !key.length)) {
    throw new TypeError('a secret is empty: anybody could sign with it');
  }
  const expected = keys.map((key) => sign(id, sent, body, key));
  // Every pair is compared, so that the time tells nothing.
  const matches = expected.flatMap((each) => signatures.map((given) => isEqual(each, given)));
  if (!matches.includes(true)) throw new SignatureError('no signature matches');
  const text = typeof body === 'string' ? body : new TextDecoder().decode(body);
  return { ...JSON.parse(text), id };
}

function header(headers: HeaderValues, name: string): string {
  if (typeof headers.get === 'function') return headers.get(name) ?? '';
  const entry = Object.entries(headers).find(([key]) => key.toLowerCase() === name);
  return entry === undefined ? '' : String(entry[1] ?? '');
}

function keyOf(secret: string): Buffer {
  return secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : Buffer.from(secret);
}

function sign(id: string, timestamp: string, body: string | Uint8Array, key: Buffer): Buffer {
  const digest = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64');
  return Buffer.from(`v1,${digest}`);
}

function isEqual(expected: Buffer, given: string): boolean {
  const bytes = Buffer.from(given);
  return bytes.length === expected.length && timingSafeEqual(bytes, expected);
}
