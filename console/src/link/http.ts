/** Requests to the management API. */

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly requestId: string;

  constructor(status: number, code: string, message: string, requestId = "") {
    super(message);
    this.status = status;
    this.code = code;
    this.requestId = requestId;
  }
}

const DEADLINE_MS = 30_000;
const KEY = "avm.key";

/** The API key of this tab. It is gone when the tab is closed, and never in the address or in storage that outlives it. */
export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (value: string | null) => (value === null ? sessionStorage.removeItem(KEY) : sessionStorage.setItem(KEY, value)),
};

export async function request<T>(method: string, path: string, body?: unknown, credential = key.get()): Promise<T> {
  const headers: Record<string, string> = {};
  if (credential !== null) headers["Authorization"] = `Bearer ${credential}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
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

function errorOf(status: number, text: string): ApiError {
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string; requestId: string } };
    return new ApiError(status, error.code, error.message, error.requestId);
  } catch {
    return new ApiError(status, "internal_error", text.slice(0, 200));
  }
}
