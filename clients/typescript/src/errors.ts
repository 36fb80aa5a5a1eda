/** Errors — a failure under the code of the one error table. */

import type { ErrorCode } from "./types.ts";

export interface ErrorFacts {
  /** The status over HTTP; 0 where there was none. */
  status?: number;
  /** The id of the request, which is in the logs of the server too. */
  requestId?: string;
  details?: Readonly<Record<string, unknown>>;
}

export class AgentVMError extends Error {
  override readonly name = "AgentVMError";
  readonly code: ErrorCode | (string & {});
  readonly status: number;
  readonly requestId: string;
  /** The facts of the message, by name: the place of a fault, for instance. */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode | (string & {}), message: string, facts: ErrorFacts = {}) {
    super(message);
    this.code = code;
    this.status = facts.status ?? 0;
    this.requestId = facts.requestId ?? "";
    this.details = facts.details ?? {};
  }

  /** The reason why credentials are not valid any more; empty for other errors. */
  get reason(): string {
    return typeof this.details.reason === "string" ? this.details.reason : "";
  }
}

/** The error of a response that is none of success. */
export function errorOf(status: number, text: string): AgentVMError {
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string; requestId: string; details?: Record<string, unknown> } };
    return new AgentVMError(error.code, error.message, { status, requestId: error.requestId, details: error.details });
  } catch {
    return new AgentVMError("internal_error", text.slice(0, 200), { status });
  }
}

/** The connection is not there, or was lost before the reply: the server may have done what was asked for. */
export const channelClosed = (message: string): AgentVMError => new AgentVMError("channel_closed", message);
