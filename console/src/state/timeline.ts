/** A turn as the management API draws it, and its bars. */

import type { CallStep, Moment, Timeline, ToolStep } from "../link/client.ts";

export type { CallStep, Moment, Timeline, ToolStep };

export interface Bar {
  id: string;
  kind: "queue" | "call" | "tool";
  /** Parts of the bar from the acceptance of the turn, in ms. */
  parts: { from: number; to: number; stage: string }[];
  call?: CallStep;
  tool?: ToolStep;
}

/** The bars in the order in which they begin. A step that has not ended lasts until now. */
export function barsOf(turn: Timeline): Bar[] {
  const since = (at: number) => Math.max(0, at - turn.acceptedAt);
  const bars: Bar[] = [];
  const queue = turn.stages?.["queue"] ?? 0;
  if (queue > 0) bars.push({ id: "queue", kind: "queue", parts: [{ from: 0, to: queue, stage: "queue" }] });
  for (const call of turn.calls) {
    const from = call.askedAt ?? call.startedAt;
    if (from === undefined) {
      bars.push({ id: call.callId, kind: "call", call, parts: [] });
      continue;
    }
    const end = since(call.endedAt ?? turn.acceptedAt + turn.duration);
    const first = since(call.firstTokenAt ?? call.endedAt ?? turn.acceptedAt + turn.duration);
    const parts = [{ from: since(from), to: first, stage: "wait" }, { from: first, to: end, stage: "stream" }];
    bars.push({ id: call.callId, kind: "call", call, parts: parts.filter((part) => part.to > part.from) });
  }
  for (const tool of turn.tools) {
    const from = tool.startedAt === undefined ? undefined : since(tool.startedAt);
    const to = since(tool.endedAt ?? turn.acceptedAt + turn.duration);
    bars.push({ id: tool.toolId, kind: "tool", tool, parts: from === undefined ? [] : [{ from, to, stage: "tools" }] });
  }
  return bars.toSorted((a, b) => (a.parts[0]?.from ?? Infinity) - (b.parts[0]?.from ?? Infinity));
}
