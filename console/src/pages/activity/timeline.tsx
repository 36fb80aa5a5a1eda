/** The time of a turn: its stages in one bar, its calls and tools in bars below each other, and what happened when. */

import type { JSX } from "preact";
import { type Bar, barsOf, type Timeline } from "../../state/timeline.ts";
import { activityWords } from "../../words/activity/index.ts";
import { duration, money } from "../../words/format.ts";
import { reasonsOf } from "../../words/rule.ts";

const WIDTH = 1_000;

export function Stages({ turn }: { turn: Timeline }): JSX.Element | null {
  const text = activityWords.value;
  const stages = Object.entries(turn.stages ?? {}).filter(([, ms]) => ms > 0);
  if (stages.length === 0) return null;
  const whole = stages.reduce((sum, [, ms]) => sum + ms, 0);
  let from = 0;
  return (
    <div class="stages">
      <svg viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none" aria-hidden="true">
        {stages.map(([stage, ms]) => {
          const [x, width] = [(from / whole) * WIDTH, (ms / whole) * WIDTH];
          from += ms;
          return <rect key={stage} class={`stage-${stage}`} x={x} width={width} height="10" />;
        })}
      </svg>
      <dl>
        {stages.map(([stage, ms]) => (
          <div key={stage}>
            <dt><i class={`stage-${stage}`} /> {text.stages[stage] ?? stage}</dt>
            <dd>{duration(ms)}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

export function Bars({ turn }: { turn: Timeline }): JSX.Element {
  const whole = Math.max(1, turn.duration);
  const place = (ms: number) => (Math.min(ms, whole) / whole) * WIDTH;
  let calls = 0;
  return (
    <ol class="bars">
      {barsOf(turn).map((bar) => {
        if (bar.kind === "call") calls += 1;
        return (
          <li key={bar.id}>
            <span class="bar-name">{nameOf(bar, calls)}</span>
            <svg viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none" aria-hidden="true">
              <path class="bar-base" d={`M0 5H${WIDTH}`} />
              {bar.parts.map(({ from, to, stage }) => (
                <rect key={stage} class={`stage-${stage}`} x={place(from)} width={Math.max(2, place(to) - place(from))} height="10" />
              ))}
            </svg>
            <Details bar={bar} />
          </li>
        );
      })}
    </ol>
  );
}

function nameOf(bar: Bar, calls: number): string {
  const text = activityWords.value;
  if (bar.kind === "queue") return text.stages["queue"] ?? "";
  return bar.kind === "call" ? text.callOf(calls) : (bar.tool?.name ?? text.tool);
}

function Details({ bar }: { bar: Bar }): JSX.Element {
  const text = activityWords.value;
  const took = bar.parts.length === 0 ? undefined : (bar.parts.at(-1)?.to ?? 0) - (bar.parts[0]?.from ?? 0);
  const { call, tool } = bar;
  return (
    <span class="bar-about">
      {took !== undefined && <span>{duration(took)}</span>}
      {call !== undefined && (
        <>
          <span>{[call.provider, call.model].filter(Boolean).join("/")}</span>
          {call.firstTokenAt !== undefined && call.askedAt !== undefined && <span>{text.firstToken} {duration(call.firstTokenAt - call.askedAt)}</span>}
          {(call.attempt ?? 1) > 1 && <span class="warn">{text.attempt(call.attempt ?? 1)}</span>}
          {call.usage !== undefined && <span>{call.usage.inputTokens} → {call.usage.outputTokens}</span>}
          {call.price !== undefined && <span>{money(call.price)}</span>}
        </>
      )}
      {tool?.error !== undefined && <span class="problem" dir="auto">{tool.error}</span>}
      {tool?.sessionId !== undefined && <a href={`/c/${tool.sessionId}`}>{text.subAgent}</a>}
      {tool?.policy !== undefined && <span>{text.rule} {reasonsOf(tool.policy)}</span>}
      {tool?.tier !== undefined && <span>{text.placed} <code>{tool.tier}</code></span>}
      {(tool?.why?.length ?? 0) > 0 && (
        <details class="why">
          <summary>{text.placedWhy}</summary>
          <dl>{tool?.why?.map(([tier, verdict]) => <div key={tier}><dt><code>{tier}</code></dt><dd lang="en">{verdict}</dd></div>)}</dl>
        </details>
      )}
    </span>
  );
}

export function Moments({ turn }: { turn: Timeline }): JSX.Element {
  const text = activityWords.value;
  return (
    <ol class="moments">
      {turn.moments.map(({ at, what, details }, index) => (
        <li key={index}>
          <time>{duration(Math.max(0, at - turn.acceptedAt))}</time>
          <span>{text.moments[what] ?? what}</span>
          {what === "fallback" && details !== undefined ? (
            <span class="hint">{text.fallback(String(details["from"]), String(details["to"]), String(details["reason"]))}</span>
          ) : (
            Object.entries(details ?? {}).map(([name, value]) => <span key={name} class="hint" dir="auto">{name === "outcome" ? (text.outcomes[String(value)] ?? String(value)) : `${name} ${String(value)}`}</span>)
          )}
        </li>
      ))}
    </ol>
  );
}
