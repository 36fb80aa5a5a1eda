import type { JSX } from "preact";
import type { ToolItem } from "../state/fold.ts";
import { visible } from "../state/visible.ts";
import { Icon } from "../ui/icons.tsx";
import { words } from "../words/index.ts";
import { Decision } from "./decision.tsx";

/** A call of a tool: its input, its result, and the decision that it waits for. */
export function ToolCard({ item }: { item: ToolItem }): JSX.Element {
  const { state, wait } = item;
  // What a question asks is said by its form.
  const showsInput = state === "waiting" && (wait?.waits === "approval" || wait?.waits === "client");
  return (
    <section class={`tool tool-${state}`} aria-label={item.name}>
      <details open={showsInput}>
        <summary>
          <Icon name="tool" />
          <code>{item.name}</code>
          <span class="tool-brief" dir="auto">{wait?.questions === undefined && visible(brief(item.input))}</span>
          <span class="tool-state">{state === "waiting" && wait?.waits === "approval" ? words.value.waitsForApproval : words.value.toolStates[state]}</span>
        </summary>
        <p class="tool-part">{words.value.input}</p>
        <pre dir="ltr" tabIndex={0}>{visible(shown(item.input))}</pre>
        {item.result !== undefined && (
          <>
            <p class="tool-part">{state === "done" ? words.value.result : words.value.toolStates[state]}</p>
            <pre dir="ltr" tabIndex={0}>{shown(item.result)}</pre>
          </>
        )}
      </details>
      {item.agentSession !== undefined && <p class="tool-part"><a href={`/c/${item.agentSession}`}>{words.value.subAgent}</a></p>}
      {item.handedTo !== undefined && <p class="tool-part" dir="auto">{words.value.handedTo(agentOf(item.handedTo))}</p>}
      {wait && <Decision item={item} wait={wait} />}
    </section>
  );
}

/** The name of an agent, out of its URI. */
const agentOf = (uri: string) => uri.replace(/^.*\//, "").replace(/@.*$/, "");

const SHOWN_MAX = 20_000;
const BRIEF_MAX = 120;

/** The texts and numbers of an input in one line. */
function brief(input: unknown): string {
  const values = Object.values((input ?? {}) as Record<string, unknown>).filter((value) => typeof value === "string" || typeof value === "number");
  return values.map(String).join(" · ").slice(0, BRIEF_MAX);
}

/** A value to be read: JSON in lines, also where a tool has sent it as text. */
function shown(value: unknown): string {
  const text = typeof value === "string" ? inLines(value) : JSON.stringify(value, null, 2);
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
}

function inLines(text: string): string {
  if (!/^\s*[[{]/.test(text) || text.length > SHOWN_MAX) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
