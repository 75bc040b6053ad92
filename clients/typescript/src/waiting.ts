import { ActionRequiredError } from './errors.js';
import type { Report, Timeline } from './generated/types.gen.js';

const ENDED = new Set<string>(['READY', 'FAILED', 'CANCELLED']);
const REFEREE_CHECK = 'EMPLOYER_VERIFICATION';
// A policy decides by itself, soon after the end of a report.
const POLICY_SECONDS = 10;

/** Whether no check of the report goes on. A `PARTIAL` one may go on. */
export function hasEnded(report: Report): boolean {
  return ENDED.has(report.status) || report.completedAt !== null;
}

/** Throws `ActionRequiredError` if the report waits for a client, subject or payer. */
export function requireNobody(report: Report): void {
  if (report.status === 'DRAFT') {
    throw new ActionRequiredError('launch', 'launch the draft by client.reports.launch', report);
  }
  if (report.status === 'PENDING_CONSENT') {
    const url = report.consentState.consentUrl;
    throw new ActionRequiredError('consent', `the subject must consent at ${url}`, report, url);
  }
  if (report.status === 'PENDING_PAYMENT') {
    const url = report.paymentState.paymentUrl;
    throw new ActionRequiredError('payment', `the payer must pay at ${url}`, report, url);
  }
}

/** Whether all that goes on is a check that a referee may answer. */
export function mayWaitForReferee(report: Report): boolean {
  const open = report.checkResults.filter((result) => ['PENDING', 'RUNNING'].includes(result.status));
  return open.length > 0 && open.every((result) => result.checkName === REFEREE_CHECK);
}

export function requireNoReferee(report: Report, timeline: Timeline): void {
  if (timeline.messages.some((message) => message.kind.startsWith('REFERENCE_'))) {
    const message = 'the referee must answer the questions that the service has sent';
    throw new ActionRequiredError('reference', message, report);
  }
}

/** Whether a decision counts. Throws `ActionRequiredError` if a person must act. */
export function isDecided(report: Report, secondsSinceEnd: number): boolean {
  if (report.decision !== null) return true;
  if (report.proposedDecision !== null) {
    const message = 'another member must confirm the proposed decision in the console';
    throw new ActionRequiredError('decision', message, report);
  }
  if (secondsSinceEnd <= POLICY_SECONDS) return false;
  throw new ActionRequiredError('decision', 'decide by client.reports.decide or in the console', report);
}
