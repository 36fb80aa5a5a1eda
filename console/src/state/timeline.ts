/** A turn as the management API draws it, and its bars. */

export interface CallStep {
  callId: string;
  provider?: string;
  model?: string;
  answeredBy?: string;
  askedAt?: number;
  startedAt?: number;
  firstTokenAt?: number;
  endedAt?: number;
  attempt?: number;
  stopReason?: string;
  usage?: { inputTokens: number; outputTokens: number };
  price?: number;
}

export interface ToolStep {
  toolId: string;
  parentId?: string;
  name: string;
  startedAt?: number;
  endedAt?: number;
  error?: string;
  policy?: string;
  tier?: string;
  why?: [string, string][];
}

export interface Moment {
  at: number;
  what: string;
  details?: Record<string, string | number>;
}

export interface Timeline {
  turnId: string;
  sessionId: string;
  imageId: string;
  containerId: string;
  messageId: string;
  userId?: string;
  acceptedAt: number;
  endedAt?: number;
  outcome?: string;
  stopReason?: string;
  duration: number;
  usage: { inputTokens: number; outputTokens: number; cacheReadTokens?: number };
  price: number;
  calls: CallStep[];
  tools: ToolStep[];
  moments: Moment[];
  stages?: Record<string, number>;
  complete: boolean;
}

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
