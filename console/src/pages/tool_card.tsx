import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Commands } from "../link/client.ts";
import { ask } from "../link/socket.ts";
import type { ToolItem, Wait } from "../state/fold.ts";
import { Button } from "../ui/button.tsx";
import { Icon } from "../ui/icons.tsx";
import { said } from "../ui/problem.tsx";
import { words } from "../words/index.ts";
import { reasonsOf } from "../words/rule.ts";

/** A call of a tool: its input, its result, and the decision that it waits for. */
export function ToolCard({ item }: { item: ToolItem }): JSX.Element {
  const labels = {
    running: words.value.running,
    waiting: words.value.waiting,
    done: words.value.result,
    failed: words.value.failed,
    denied: words.value.denied,
  };
  return (
    <section class={`tool tool-${item.state}`} aria-label={item.name}>
      <details open={item.state === "waiting"}>
        <summary>
          <Icon name="tool" />
          <code>{item.name}</code>
          <span class="tool-state">{labels[item.state]}</span>
        </summary>
        <p class="tool-part">{words.value.input}</p>
        <pre dir="ltr" tabIndex={0}>{shown(item.input)}</pre>
        {item.result !== undefined && (
          <>
            <p class="tool-part">{labels[item.state]}</p>
            <pre dir="ltr" tabIndex={0}>{shown(item.result)}</pre>
          </>
        )}
      </details>
      {item.agentSession !== undefined && <p class="tool-part"><a href={`/c/${item.agentSession}`}>{words.value.subAgent}</a></p>}
      {item.wait && <Decision item={item} wait={item.wait} />}
    </section>
  );
}

/** What a person can decide about a call. The fingerprint binds the answer to this call with this input. */
function Decision({ item, wait }: { item: ToolItem; wait: Wait }): JSX.Element {
  const [reason, setReason] = useState("");
  const [edited, setEdited] = useState<string | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => {
    const own = form.current;
    // Who decides with the keyboard goes on at the card, which stays.
    return () => {
      if (own?.contains(document.activeElement)) own.closest(".tool")?.querySelector("summary")?.focus();
    };
  }, []);

  async function answer(decision: Commands["tool_answer"]["request"]["decision"], more: Record<string, unknown> = {}): Promise<void> {
    setProblem("");
    try {
      await ask("tool_answer", { waitId: wait.waitId, fingerprint: wait.fingerprint, decision, ...more });
    } catch (error) {
      setProblem(said(error));
    }
  }

  function answerEdited(): void {
    let input: unknown;
    try {
      input = JSON.parse(edited ?? "");
    } catch {
      setProblem(words.value.invalidJson);
      return;
    }
    void answer(wait.waits === "approval" ? "edit" : "answer", wait.waits === "approval" ? { input } : { result: input });
  }

  const may = (decision: string) => wait.decisions.includes(decision);
  return (
    <form ref={form} class="decision" onSubmit={(event) => event.preventDefault()}>
      <p>
        {words.value.whyAsked}: {reasonsOf(wait.why)}
      </p>
      {edited !== undefined && (
        <textarea aria-label={words.value.input} rows={6} value={edited} onInput={(event) => setEdited(event.currentTarget.value)} />
      )}
      <div class="decision-row">
        {may("approve") && edited === undefined && (
          <Button primary onClick={() => void answer("approve")}>{words.value.allow}</Button>
        )}
        {edited !== undefined && <Button primary onClick={answerEdited}>{words.value.send}</Button>}
        {(may("edit") || may("answer")) && edited === undefined && (
          <Button onClick={() => setEdited(may("edit") ? shown(item.input) : "")}>{words.value.edit}</Button>
        )}
        {edited !== undefined && <Button onClick={() => setEdited(undefined)}>{words.value.cancel}</Button>}
        {may("deny") && (
          <>
            <input aria-label={words.value.reason} placeholder={words.value.reason} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
            <Button onClick={() => void answer("deny", reason === "" ? {} : { reason })}>{words.value.deny}</Button>
          </>
        )}
      </div>
      <p role="alert" class="problem">{problem}</p>
    </form>
  );
}

const SHOWN_MAX = 20_000;

function shown(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
}
