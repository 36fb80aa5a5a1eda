/** Requests to the management API, with the cookie of the session, which the browser adds. */

import { AgentVMError, HttpClient } from "./client.ts";

export { AgentVMError as ApiError };

export const http = new HttpClient({ url: "" });

export const request = <T>(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<T> =>
  http.request(method, path, body, headers);
