/** Reading from the management API: one value, or a list in pages. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, request } from "../link/http.ts";

export interface Loaded<T> {
  /** Stays while it is read again. */
  data: T | undefined;
  error: ApiError | undefined;
  reload: () => Promise<void>;
}

export interface LoadedList<T> extends Loaded<T[]> {
  /** Reads the next page, if there is one. */
  more: (() => Promise<void>) | undefined;
}

interface PageOf<T> {
  items: T[];
  nextCursor?: string | null;
}

/** Reads a path whenever it changes; nothing is read while it is undefined. A question with a body is posted. */
export function useData<T>(path: string | undefined, question?: object): Loaded<T> {
  const [state, setState] = useState<{ path?: string; data?: T; error?: ApiError }>({});
  const latest = useRef(path);
  latest.current = path;

  async function reload(): Promise<void> {
    if (path === undefined) return;
    try {
      const data = await request<T>(question === undefined ? "GET" : "POST", path, question);
      if (latest.current === path) setState({ path, data });
    } catch (error) {
      if (latest.current === path) setState((before) => ({ path, data: before.path === path ? before.data : undefined, error: apiError(error) }));
    }
  }
  useEffect(() => void reload(), [path]);
  const isOfPath = state.path === path;
  return { data: isOfPath ? state.data : undefined, error: isOfPath ? state.error : undefined, reload };
}

/** Reads a list of the API page by page; `path` may have a query. */
export function useList<T, P extends PageOf<T> = PageOf<T>>(path: string | undefined): LoadedList<T> & { page: P | undefined } {
  const first = useData<P>(path);
  const [later, setLater] = useState<{ of?: PageOf<T>; items: T[]; cursor?: string | null; error?: ApiError }>({ items: [] });
  const isLater = first.data !== undefined && later.of === first.data;
  const cursor = isLater ? later.cursor : first.data?.nextCursor;

  async function more(): Promise<void> {
    const of = first.data;
    if (path === undefined || of === undefined) return;
    try {
      const page = await request<PageOf<T>>("GET", withQuery(path, { cursor: cursor ?? undefined }));
      setLater({ of, items: [...(isLater ? later.items : []), ...page.items], cursor: page.nextCursor });
    } catch (error) {
      setLater({ of, items: isLater ? later.items : [], cursor, error: apiError(error) });
    }
  }
  return {
    data: first.data && [...first.data.items, ...(isLater ? later.items : [])],
    error: first.error ?? (isLater ? later.error : undefined),
    reload: first.reload,
    more: cursor ? more : undefined,
    page: first.data,
  };
}

/** The path with further members of the query. Members that are undefined or empty are left out. */
export function withQuery(path: string, query: Readonly<Record<string, string | number | undefined>>): string {
  const [start = "", before = ""] = path.split("?");
  const all = new URLSearchParams(before);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === "") all.delete(name);
    else all.set(name, String(value));
  }
  const text = all.toString();
  return text === "" ? start : `${start}?${text}`;
}

export const apiError = (error: unknown) =>
  error instanceof ApiError ? error : new ApiError("internal_error", error instanceof Error ? error.message : String(error));
