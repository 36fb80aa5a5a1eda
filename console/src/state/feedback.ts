/** The ratings of answers that the user has given in a conversation: asked for once when it is opened. */

import type { FeedbackView as Feedback } from "../link/client.ts";
import { signal } from "@preact/signals";
import { request } from "../link/http.ts";
import { identity } from "../link/who.ts";
import { withQuery } from "./data.ts";

export type { Feedback };

export type Rating = "up" | "down";

/** By turn. */
export const ratings = signal<Readonly<Record<string, Rating>>>({});

const asked = new Set<string>();
const OF_SESSION_MAX = 200;

const own = () => identity.value?.userId ?? identity.value?.keyId ?? "";
const pathOf = (turnId: string) => `/v1/turns/${encodeURIComponent(turnId)}/feedback`;

export async function loadRatings(sessionId: string): Promise<void> {
  if (asked.has(sessionId)) return;
  asked.add(sessionId);
  try {
    const { items } = await request<{ items: Feedback[] }>("GET", withQuery("/v1/feedback", { session: sessionId, limit: OF_SESSION_MAX }));
    const mine = items.filter(({ author }) => author === own()).map(({ turnId, rating }) => [turnId, rating] as const);
    // What was chosen while they were read is newer.
    if (mine.length > 0) ratings.value = { ...Object.fromEntries(mine), ...ratings.value };
  } catch {
    // Without them the answers are as unrated ones; the next visit asks again.
    asked.delete(sessionId);
  }
}

export async function rate(turnId: string, rating: Rating, note?: string): Promise<void> {
  await request("PUT", pathOf(turnId), note === undefined || note === "" ? { rating } : { rating, note });
  ratings.value = { ...ratings.value, [turnId]: rating };
}

export async function takeRatingBack(turnId: string): Promise<void> {
  await request("DELETE", pathOf(turnId));
  const { [turnId]: _, ...rest } = ratings.value;
  ratings.value = rest;
}
