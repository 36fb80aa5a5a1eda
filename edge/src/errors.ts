/** Errors — the failures of the edge, under the codes of the one error table. */

import type { ErrorCode } from "../../clients/typescript/src/types.ts";

const NAME_MAX = 200;

/** A name of a client, fit for an error text. */
export function shorten(name: string): string {
  return name.length <= NAME_MAX ? name : `${name.slice(0, NAME_MAX)}…`;
}

/** An expected failure: its text is safe to show to a client. */
export class EdgeError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** A failed model call. `recoverable`: sending again may succeed. */
export class ProviderError extends EdgeError {
  readonly recoverable: boolean;

  constructor(code: ErrorCode, message: string, recoverable: boolean) {
    super(code, message);
    this.recoverable = recoverable;
  }
}

export const invalid = (message: string): EdgeError => new EdgeError("invalid_input", message);
export const tooLarge = (message: string): EdgeError => new EdgeError("input_too_large", message);
export const imageNotFound = (id: string): EdgeError => new EdgeError("image_not_found", `Image not found: ${shorten(id)}`);
export const agentNotFound = (id: string): EdgeError => new EdgeError("agent_not_found", `Agent not found: ${shorten(id)}`);
export const unauthenticated = (message: string): EdgeError => new EdgeError("unauthenticated", message);

/** Any error as one that a client may see; the text of an unexpected one stays in the log. */
export function visible(error: unknown): EdgeError {
  if (error instanceof EdgeError) return error;
  console.error(JSON.stringify({ log: "internal_error", error: error instanceof Error ? (error.stack ?? error.message) : String(error) }));
  return new EdgeError("internal_error", "Something went wrong here; the log of the Worker has the details");
}
