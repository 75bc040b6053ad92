import { setTimeout as sleep } from 'node:timers/promises';
import { WaitTimeoutError } from './errors.js';
import { createClient } from './generated/client/index.js';
import { Apis, EventsApi, ReportsApi, WebhooksApi } from './generated/resources.js';
import * as sdk from './generated/sdk.gen.js';
import type { Balance, CreatedReport, Me, Report, ReportItem } from './generated/types.gen.js';
import { VERSION } from './generated/version.js';
import { type Http, type OrderOptions, type RequestOptions, retrying } from './requests.js';
import { hasEnded, isDecided, mayWaitForReferee, requireNoReferee, requireNobody } from './waiting.js';
import { type Event, verify } from './webhooks.js';

export interface WaitOptions extends RequestOptions {
  timeoutSeconds?: number;
  /** Wait for the decision that counts, too. */
  decided?: boolean;
}

export class Reports extends ReportsApi {
  /**
   * Create one report, and launch it unless its `draft` is true.
   *
   * The launch is billed. However often the network makes the client repeat the request, one
   * report is created.
   */
  async create(report: ReportItem, options: OrderOptions = {}): Promise<CreatedReport> {
    const answer = await this.createMany({ reports: [report] }, options);
    return answer.reports[0] as CreatedReport;
  }

  /**
   * Return the report once it has ended, however it ended: look at `status`.
   *
   * Throws `ActionRequiredError` as soon as a person must act, and `WaitTimeoutError` when the
   * time is over.
   */
  async waitUntilCompleted(
    reportId: string,
    { timeoutSeconds = 600, decided = false, ...options }: WaitOptions = {},
  ): Promise<Report> {
    const start = performance.now();
    let endedAt: number | undefined;
    for (let pause = 500; ; pause = Math.min(pause * 1.5, 10_000)) {
      const report = await this.get(reportId, options);
      if (hasEnded(report)) {
        endedAt ??= performance.now();
        if (!decided || isDecided(report, (performance.now() - endedAt) / 1000)) return report;
      } else {
        requireNobody(report);
        if (mayWaitForReferee(report)) requireNoReferee(report, await this.getTimeline(reportId, options));
      }
      const left = start + timeoutSeconds * 1000 - performance.now();
      if (left <= 0) {
        throw new WaitTimeoutError(`the report is ${report.status} after ${timeoutSeconds} seconds`, report);
      }
      await sleep(Math.min(pause, left), undefined, options);
    }
  }
}

export class Webhooks extends WebhooksApi {
  readonly verify = verify;
}

export interface FollowOptions extends RequestOptions {
  /** Where to go on: the `cursor` of the last event that you have processed. */
  cursor?: string | undefined;
  /** Only these events. */
  types?: readonly string[];
  /** Without a cursor, begin with the first event after this time. */
  since?: Date;
  /** Called with the cursor after each page that you have processed, also an empty one. */
  store?: (cursor: string) => unknown;
  intervalSeconds?: number;
}

/** An event, and where to go on after it. The cursor is undefined within the first page. */
export type FollowedEvent = Event & { cursor: string | undefined };

export class Events extends EventsApi {
  /**
   * Yield events as they happen, for ever; ask every `intervalSeconds`.
   *
   * Store `cursor` of an event when you have processed it, and begin with it next time: no event
   * is missed, and a few may come twice. Without a cursor it begins with the oldest event.
   *
   * A cursor expires after 30 days. If your `types` are rare, pass `store`.
   */
  async *follow({
    cursor,
    types = [],
    since,
    store,
    intervalSeconds = 2,
    ...options
  }: FollowOptions = {}): AsyncGenerator<FollowedEvent, never> {
    const filter = {
      ...(types.length && { types: types.join(',') }),
      // A cursor does not hold `since`, so each page needs it.
      ...(!cursor && since && { since: since.toISOString() }),
    };
    for (;;) {
      const page = await this.list({ size: 200, ...filter, ...(cursor && { cursor }) }, options);
      for (const [place, event] of page.content.entries()) {
        yield { ...event, cursor: place === page.content.length - 1 ? page.nextCursor : cursor };
      }
      cursor = page.nextCursor;
      await store?.(cursor);
      if (!page.hasMore) await sleep(intervalSeconds * 1000, undefined, options);
    }
  }
}

export interface ClientOptions {
  /** Without it: the environment variable `VERIFICATION_API_KEY`. */
  apiKey?: string;
  /** The address of the installation, without a path. Without it: `VERIFICATION_BASE_URL`. */
  baseUrl?: string;
  /** For one attempt: until its answer begins, and between two pieces of the answer. */
  timeoutSeconds?: number;
  maxRetries?: number;
  /** Your own, if you need proxies or certificates of your own. */
  fetch?: (request: Request) => Promise<Response>;
}

/** A client of one installation with one API key. */
export class Client extends Apis {
  /** `sandbox` or `production`, as the prefix of the key tells. */
  readonly environment: 'sandbox' | 'production';
  override readonly reports: Reports;
  override readonly webhooks: Webhooks;
  override readonly events: Events;
  readonly #http: Http;

  constructor(options: ClientOptions = {}) {
    const { timeoutSeconds = 30, maxRetries = 4, fetch = globalThis.fetch } = options;
    const key = (options.apiKey ?? process.env['VERIFICATION_API_KEY'] ?? '').trim();
    const address = (options.baseUrl ?? process.env['VERIFICATION_BASE_URL'] ?? '').trim();
    if (!/^vrf_(test|live)_\w+$/.test(key)) {
      throw new TypeError('the API key must begin with vrf_test_ or vrf_live_');
    }
    if (!/^https?:\/\//.test(address)) {
      throw new TypeError('baseUrl must be the address of the service, with https://');
    }
    const http = createClient({
      baseUrl: address.replace(/\/+(api\/v1\/*)?$/, ''),
      fetch: retrying(fetch, timeoutSeconds, maxRetries) as typeof globalThis.fetch,
      headers: { Authorization: `Bearer ${key}`, 'User-Agent': `verification-reports-typescript/${VERSION}` },
      redirect: 'manual',
      throwOnError: true,
    });
    super(http);
    this.#http = http;
    this.reports = new Reports(http);
    this.webhooks = new Webhooks(http);
    this.events = new Events(http);
    this.environment = key.startsWith('vrf_test_') ? 'sandbox' : 'production';
  }

  /** Return what the key is, its workspace, scopes and limits. */
  async me(options: RequestOptions = {}): Promise<Me> {
    return await sdk.getMe({ client: this.#http, ...options });
  }

  /** Return the money of the workspace in the key's environment. */
  async balance(options: RequestOptions = {}): Promise<Balance> {
    return await sdk.getBalance({ client: this.#http, ...options });
  }
}
