import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Markdown } from "../markdown/view.tsx";
import type { OpenConversation } from "../state/conversation.ts";
import type { AnswerItem, Item, TurnEnd, UserItem } from "../state/fold.ts";
import { Button, IconButton } from "../ui/button.tsx";
import { attempt, toast } from "../ui/toast.tsx";
import { clock, duration, money } from "../words/format.ts";
import { language, words } from "../words/index.ts";
import { sends } from "./composer.tsx";
import { ToolCard } from "./tool_card.tsx";

interface Props {
  item: Item;
  /** The name of the agent, over the first thing that it says in a turn. */
  name: string | undefined;
  isLast: boolean;
  end: TurnEnd | undefined;
  isMarked: boolean;
  open: OpenConversation;
  go: (path: string) => void;
}

/** One message, with what can be done about it. */
export function Row({ item, name, isLast, end, isMarked, open, go }: Props): JSX.Element | null {
  // A step that only calls tools says nothing.
  const isSilent = item.kind === "answer" && !item.live && item.text === "" && item.thinking === "";
  if (isSilent && end === undefined && name === undefined) return null;
  return (
    <article class={`item item-${item.kind}${isMarked ? " item-marked" : ""}`} id={item.id}>
      {name !== undefined && (
        <p class="who">
          {name} <time>{clock(item.at, language.value)}</time>
        </p>
      )}
      {!isSilent && <Body item={item} open={open} />}
      {isLast && (
        <footer class="bill">
          {end && <Bill end={end} />}
          <Actions item={item} open={open} go={go} />
        </footer>
      )}
    </article>
  );
}

function Bill({ end }: { end: TurnEnd }): JSX.Element {
  return (
    <>
      {end.priceNano !== undefined && <span title={`${end.priceNano} nano-USD`}>{money(end.priceNano)}</span>}
      <span>{words.value.tokens(end.usage.inputTokens, end.usage.outputTokens)}</span>
      <span>{duration(end.durationMs)}</span>
      {end.model && <span>{end.model}</span>}
    </>
  );
}

function Actions({ item, open, go }: Pick<Props, "item" | "open" | "go">): JSX.Element | null {
  if (item.kind === "user" || (item.kind === "answer" && item.live)) return null;
  const messageId = item.kind === "tool" ? (item.messageIds.at(-1) ?? item.id) : item.id;
  return (
    <span class="actions">
      {item.kind === "answer" && item.text !== "" && <IconButton icon="copy" label={words.value.copyAnswer} onClick={() => copy(item.text)} />}
      <IconButton icon="again" label={words.value.answerAgain} onClick={() => attempt(open.answerAgain(messageId))} />
      <IconButton icon="fork" label={words.value.forkHere} onClick={() => attempt(open.fork(messageId).then((id) => go(`/c/${id}`)))} />
    </span>
  );
}

function copy(text: string): void {
  attempt(navigator.clipboard.writeText(text).then(() => toast(words.value.copied)));
}

function Body({ item, open }: Pick<Props, "item" | "open">): JSX.Element {
  switch (item.kind) {
    case "user":
      return open.editing.value === item.id ? <Editor item={item} open={open} /> : <Question item={item} open={open} />;
    case "answer":
      return <Answer item={item} />;
    case "tool":
      return <ToolCard item={item} />;
    case "error":
      return (
        <p class="problem" role="alert">
          {item.text} <code>{item.code}</code>
        </p>
      );
  }
}

function Question({ item, open }: { item: UserItem; open: OpenConversation }): JSX.Element {
  const isSent = item.clientKey === undefined;
  return (
    <div class={isSent ? "bubble" : "bubble bubble-pending"}>
      <div class="bubble-head">
        <p class="who">
          {words.value.you} <time>{clock(item.at, language.value)}</time>
        </p>
        {isSent && (
          <span class="actions">
            <IconButton icon="pen" label={words.value.editQuestion} onClick={() => (open.editing.value = item.id)} />
            <IconButton icon="back" label={words.value.takeBack} onClick={() => attempt(open.rewind(item.id))} />
          </span>
        )}
      </div>
      <div class="said" dir="auto">{item.text}</div>
      {item.files.map((file, index) => (
        <span class="chip" key={index}>{file.filename ?? file.name ?? file.mediaType}</span>
      ))}
      {item.refused && (
        <p class="problem" role="alert">
          {item.refused} <Button onClick={() => void open.discard(item.id)}>{words.value.discard}</Button>
        </p>
      )}
    </div>
  );
}

/** A question that is being changed. What was written stays if the server refuses it. */
function Editor({ item, open }: { item: UserItem; open: OpenConversation }): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    field.current?.focus();
    field.current?.setSelectionRange(item.text.length, item.text.length);
  }, []);

  function close(): void {
    open.editing.value = undefined;
    document.querySelector<HTMLElement>(".composer textarea")?.focus();
  }
  function save(): void {
    const text = field.current?.value.trim() ?? "";
    if (text === "") return;
    attempt(open.edit(item, text).then(() => document.querySelector<HTMLElement>(".composer textarea")?.focus()));
  }
  return (
    <form
      class="bubble editor"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <textarea
        ref={field}
        dir="auto"
        rows={Math.min(12, item.text.split("\n").length + 1)}
        defaultValue={item.text}
        aria-label={words.value.editQuestion}
        onKeyDown={(event) => {
          if (event.key === "Escape" && !event.isComposing) close();
          if (!sends(event)) return;
          event.preventDefault();
          save();
        }}
      />
      <div class="decision-row">
        <Button primary onClick={save}>{words.value.send}</Button>
        <Button onClick={close}>{words.value.cancel}</Button>
      </div>
    </form>
  );
}

function Answer({ item }: { item: AnswerItem }): JSX.Element {
  return (
    <div class={item.live ? "answer answer-live" : "answer"}>
      {item.thinking !== "" && (
        <details class="thinking">
          <summary>{words.value.thinking}</summary>
          <div dir="auto">{item.thinking}</div>
        </details>
      )}
      <Markdown text={item.text} />
    </div>
  );
}
