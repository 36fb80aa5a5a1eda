/** Requests to the management API. */

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly requestId: string;
  /** The reason why credentials are not valid any more. */
  readonly reason: string;
  /** The facts of the message, by name: the place of a fault, for instance. */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(status: number, code: string, message: string, requestId = "", reason = "", details: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    this.reason = reason;
    this.details = details;
  }
}

interface Failure {
  code: string;
  message: string;
  requestId: string;
  details?: { reason?: string; [name: string]: unknown };
}

const DEADLINE_MS = 30_000;

/** Asks with the cookie of the session, which the browser adds. */
export async function request<T>(method: string, path: string, body?: unknown, extra: Readonly<Record<string, string>> = {}): Promise<T> {
  const headers: Record<string, string> = body === undefined ? { ...extra } : { "Content-Type": "application/json", ...extra };
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
  } catch {
    throw new ApiError(0, "unreachable", "The server cannot be reached");
  }
  const text = await response.text();
  if (response.ok) return (text === "" ? undefined : JSON.parse(text)) as T;
  throw errorOf(response.status, text);
}

export function errorOf(status: number, text: string): ApiError {
  try {
    const { error } = JSON.parse(text) as { error: Failure };
    return new ApiError(status, error.code, error.message, error.requestId, error.details?.reason, error.details);
  } catch {
    return new ApiError(status, "internal_error", text.slice(0, 200));
  }
}
