import type { Report } from './generated/types.gen.js';

/** Base of all errors of this package. */
export class VerificationError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/**
 * The service could not be reached, or its answer did not arrive whole. `mayHaveHappened` is true
 * if the service may have done what it was asked.
 */
export class ConnectionError extends VerificationError {
  constructor(message: string, readonly mayHaveHappened: boolean, cause?: unknown) {
    super(message, { cause });
  }
}

/** One fault of a request. `place` is a JSON Pointer, or a parameter or header. */
export interface Fault {
  readonly place: string;
  readonly code: string;
  readonly detail: string;
}

/**
 * The service refused a request: a problem as in RFC 9457.
 *
 * Branch on `code` and `status`. `type` leads to a page that explains the problem.
 * `mayHaveHappened` is true if the service may have carried out the request nevertheless.
 */
export class ProblemError extends VerificationError {
  readonly type: string;
  readonly title: string;
  readonly detail: string;
  readonly code: string;
  readonly requestId: string;
  readonly mayHaveHappened: boolean;
  readonly faults: readonly Fault[];

  constructor(
    readonly status: number,
    /** The whole problem, with members that this version does not know. */
    readonly body: Readonly<Record<string, unknown>>,
    /** Seconds after which to try again, if the service names them. */
    readonly retryAfter?: number,
  ) {
    const text = (name: string) => (typeof body[name] === 'string' ? body[name] : '');
    const code = text('code');
    const where = code && ` (request ${text('requestId')}, see ${text('type')})`;
    super(`${status} ${code || text('title')}: ${text('detail')}${where}`);
    this.type = text('type') || 'about:blank';
    this.title = text('title');
    this.detail = text('detail');
    this.code = code;
    this.requestId = text('requestId');
    // An overloaded service has not begun. A proxy, or a service that lost its database, does not
    // know how far the request went.
    this.mayHaveHappened = (status >= 500 && code !== 'overloaded') || code === 'idempotency-in-progress';
    this.faults = (Array.isArray(body['errors']) ? body['errors'] : []).map((error) => ({
      place: String(error?.pointer ?? error?.parameter ?? error?.header ?? ''),
      code: String(error?.code ?? ''),
      detail: String(error?.detail ?? ''),
    }));
  }

  /** The places of all faults, such as `#/reports/0/subject/idNumber`. */
  get pointers(): string[] {
    return this.faults.map((fault) => fault.place);
  }
}

export type ActionKind = 'launch' | 'consent' | 'payment' | 'reference' | 'decision';

/** A report does not go on until a person acts. `url` is that person's link, if there is one. */
export class ActionRequiredError extends VerificationError {
  readonly url: string | undefined;

  constructor(readonly kind: ActionKind, message: string, readonly report: Report, url?: string | null) {
    super(message);
    this.url = url ?? undefined;
  }
}

/** The report had not ended when the time was over. `report` is its last state. */
export class WaitTimeoutError extends VerificationError {
  constructor(message: string, readonly report: Report) {
    super(message);
  }
}

/** A webhook was not sent by the service, or is too old. */
export class SignatureError extends VerificationError {}
