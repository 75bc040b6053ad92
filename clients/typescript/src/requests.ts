import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionError, ProblemError } from './errors.js';
import type { Client as Http } from './generated/client/index.js';

export type { Http };

export interface RequestOptions {
  /** Ends the request, and the waiting between its attempts. */
  signal?: AbortSignal;
}

export interface OrderOptions extends RequestOptions {
  /** Your own key, if your program may send the same order again. */
  idempotencyKey?: string;
}

// Refusals that pass by themselves
const PASSING = new Set([429, 502, 503, 504]);
const UNSENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);
// Answers of which this package reads members, and whether these are there
const READ: [RegExp, (answer: Record<string, unknown>) => boolean][] = [
  [/^POST .*\/api\/v1\/reports$/, ({ reports }) => Array.isArray(reports) && isObject(reports[0])],
  [/^GET .*\/api\/v1\/reports\/[^/?]+$/, ({ checkResults }) => Array.isArray(checkResults)],
  [/^GET .*\/api\/v1\/reports\/[^/?]+\/events$/, ({ messages }) => Array.isArray(messages)],
  [/^GET .*\/api\/v1\/events(\?|$)/, ({ content, nextCursor }) => Array.isArray(content) && typeof nextCursor === 'string'],
  [/^GET .*[?&]page=/, ({ content, last }) => Array.isArray(content) && typeof last === 'boolean'],
];
const KEY = 'Idempotency-Key';
const LONGEST_WAIT = 60;

/** All attempts at an order have one key, so it is made and billed once. */
export function ordering({ idempotencyKey, ...options }: OrderOptions) {
  return { ...options, headers: { [KEY]: idempotencyKey ?? randomUUID() } };
}

interface Page<Item> {
  content: Item[];
  last: boolean;
}

/** Yields the items of all pages. New rows push earlier ones to the next page: each comes once. */
export async function* pages<Item>(read: (page: number) => Promise<Page<Item>>): AsyncGenerator<Item, void> {
  const seen = new Set<unknown>();
  for (let page = 0, last = false; !last; page += 1) {
    const answer = await read(page);
    for (const item of answer.content) {
      const id = (item as { id?: unknown }).id ?? item;
      if (!seen.has(id)) {
        seen.add(id);
        yield item;
      }
    }
    last = answer.last;
  }
}

/** Returns a `fetch` that sends a request again as long as that helps and is safe. */
export function retrying(
  fetch: (request: Request) => Promise<Response>,
  timeoutSeconds: number,
  maxRetries: number,
): (request: Request) => Promise<Response> {
  return async (request) => {
    const isRepeatable = ['GET', 'PUT', 'DELETE'].includes(request.method) || request.headers.has(KEY);
    let mayHaveHappened = false;
    for (let attempt = 0; ; attempt += 1) {
      const result = await attemptOnce(fetch, request, timeoutSeconds);
      if (result instanceof Response) return result;
      if (mayHaveHappened && isDeleted(request, result)) return new Response(null, { status: 204 });
      // An earlier attempt counts, too.
      mayHaveHappened ||= result.mayHaveHappened;
      Object.assign(result, { mayHaveHappened });
      const wait = (result instanceof ProblemError && result.retryAfter) || 0;
      if (attempt >= maxRetries || wait > LONGEST_WAIT || !mayRepeat(result, isRepeatable)) throw result;
      const jitter = Math.random() * Math.min(0.5 * 2 ** attempt, 8);
      await sleep((wait + jitter) * 1000, undefined, { signal: request.signal });
    }
  };
}

/** Whether an earlier attempt has deleted what this one did not find. An erasure leaves its report. */
function isDeleted({ method, url }: Request, failure: ProblemError | ConnectionError): boolean {
  return method === 'DELETE' && !url.endsWith('/subject') && failure instanceof ProblemError && failure.status === 404 && failure.code !== '';
}

function mayRepeat(failure: ProblemError | ConnectionError, isRepeatable: boolean): boolean {
  if (failure.mayHaveHappened && !isRepeatable) return false;
  // With this code the first attempt is still at work.
  return failure instanceof ConnectionError || failure.code === 'idempotency-in-progress' || PASSING.has(failure.status);
}

/** Returns the answer once it is there as a whole, or why there is none. */
async function attemptOnce(
  fetch: (request: Request) => Promise<Response>,
  request: Request,
  timeoutSeconds: number,
): Promise<Response | ProblemError | ConnectionError> {
  // A large answer may take longer, as long as its pieces arrive.
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(new Error(`no data for ${timeoutSeconds} seconds`)), timeoutSeconds * 1000);
  const signal = AbortSignal.any([request.signal, silence.signal]);
  let response: Response;
  let content: ArrayBuffer;
  try {
    // Node's `fetch` forgets the signal if the garbage is collected meanwhile.
    const aborted = new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    response = await Promise.race([fetch(new Request(request.clone(), { signal })), aborted]);
    timer.refresh();
    const parts: Uint8Array[] = [];
    const write = (part: Uint8Array) => {
      timer.refresh();
      parts.push(part);
    };
    await response.body?.pipeTo(new WritableStream({ write }), { signal });
    content = await new Blob(parts as BlobPart[]).arrayBuffer();
  } catch (error) {
    request.signal.throwIfAborted();
    const cause = (error as Error).cause as { code?: string; message?: string } | undefined;
    const message = `${request.method} ${request.url}: ${cause?.message || (error as Error).message}`;
    return new ConnectionError(message, !UNSENT.has(cause?.code ?? ''), error);
  } finally {
    clearTimeout(timer);
  }
  if (!response.ok) return new ProblemError(response.status, problemOf(response, content), retryAfter(response));
  const { status, statusText, headers } = response;
  const type = headers.get('Content-Type') ?? '';
  if (status !== 204 && (/^(text\/(html|plain)|$)/i.test(type) || (/^application\/json\b/i.test(type) && !isAnswer(request, parse(content))))) {
    // A proxy has cut the answer, or has put a page of its own in its place.
    const message = `the answer to ${request.method} ${request.url} is not what the service sends`;
    return new ConnectionError(message, true);
  }
  return new Response(status === 204 ? null : content, { status, statusText, headers });
}

function parse(content: ArrayBuffer): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(content));
  } catch {
    return undefined;
  }
}

function isAnswer({ method, url }: Request, body: unknown): boolean {
  if (!isObject(body)) return false;
  return READ.every(([request, hasMembers]) => !request.test(`${method} ${url}`) || hasMembers({ ...body }));
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the problem, or one made of an answer that is none: that of a proxy. */
function problemOf(response: Response, content: ArrayBuffer): Record<string, unknown> {
  const body = parse(content);
  if (isObject(body) && 'code' in body) return { ...body };
  const detail = response.headers.get('Location') ?? new TextDecoder().decode(content).slice(0, 200);
  return { title: response.statusText, detail };
}

/** Returns the seconds of `Retry-After`, which is a number or a date. */
function retryAfter(response: Response): number | undefined {
  const value = response.headers.get('Retry-After') ?? '';
  if (/^\d+$/.test(value)) return Number(value);
  const moment = Date.parse(value);
  return Number.isNaN(moment) ? undefined : Math.max(0, (moment - Date.now()) / 1000);
}
