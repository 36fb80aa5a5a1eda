import { Component, type JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { SessionRow } from "../link/frames.ts";
import { Markdown } from "../markdown/view.tsx";
import type { OpenConversation } from "../state/conversation.ts";
import type { AnswerItem, ErrorItem, Item, TurnEnd, UserItem } from "../state/fold.ts";
import { progress } from "../state/outbox.ts";
import { Button, IconButton } from "../ui/button.tsx";
import { Icon } from "../ui/icons.tsx";
import { Problem } from "../ui/problem.tsx";
import { attempt, toast } from "../ui/toast.tsx";
import { clock, duration, languageOf, money } from "../words/format.ts";
import { language, words } from "../words/index.ts";
import { may } from "../routes.ts";
import { Citations } from "./citations.tsx";
import { sends, writeAgain } from "./composer.tsx";
import { Files } from "./files.tsx";
import { RateAnswer } from "./rating.tsx";
import { ToolCard } from "./tool_card.tsx";

interface Props {
  item: Item;
  /** The name of the agent, over the first thing that it says in a turn. */
  name: string | undefined;
  isLast: boolean;
  end: TurnEnd | undefined;
  isMarked: boolean;
  /** Conversations that branch off at this message. */
  forks: readonly SessionRow[];
  open: OpenConversation;
  go: (path: string) => void;
}

/** One message. It is drawn anew when something of it changes, and not when another one grows. */
export class Row extends Component<Props> {
  shouldComponentUpdate(next: Props): boolean {
    const same = (Object.keys(next) as (keyof Props)[]).every((name) => next[name] === this.props[name] || name === "go");
    return !same;
  }

  render(props: Props): JSX.Element {
    return <Message {...props} />;
  }
}

/** A message with what can be done about it. */
function Message({ item, name, isLast, end, isMarked, forks, open, go }: Props): JSX.Element | null {
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
      {forks.length > 0 && <ForkLinks forks={forks} />}
      {item.kind === "user" && end && <footer class="bill"><Bill end={{ ...end, model: undefined }} href={`/c/${open.sessionId}?turn=${item.turnId}`} /></footer>}
      {isLast && (
        <footer class="bill">
          {end && <Bill end={end} href={item.turnId === undefined ? undefined : `/c/${open.sessionId}?turn=${item.turnId}`} />}
          {end && item.turnId !== undefined && (
            <a class="btn-icon bill-link" href={`/activity/turns/${item.turnId}`} aria-label={words.value.replay} title={words.value.replay}><Icon name="play" /></a>
          )}
          {end && item.kind === "answer" && item.turnId !== undefined && <RateAnswer turnId={item.turnId} sessionId={open.sessionId} />}
          <Actions item={item} open={open} go={go} />
        </footer>
      )}
    </article>
  );
}

/** The conversations that branch off here. */
function ForkLinks({ forks }: { forks: readonly SessionRow[] }): JSX.Element {
  return (
    <details class="branches">
      <summary>{words.value.branchesHere(forks.length)}</summary>
      <ul>
        {forks.map((fork) => (
          <li key={fork.sessionId}><a href={`/c/${fork.sessionId}`} dir="auto">{fork.title ?? fork.preview ?? words.value.untitled}</a></li>
        ))}
      </ul>
    </details>
  );
}

/** What a turn has cost; it leads to the panel that tells more. Imported messages have no turn. */
function Bill({ end, href }: { end: TurnEnd; href: string | undefined }): JSX.Element {
  const amounts = (
    <>
      {end.outcome === "interrupted" && <span class="stopped">{words.value.stopped}</span>}
      {end.priceNano !== undefined && <span title={`${end.priceNano} nano-USD`}>{money(end.priceNano)}</span>}
      <span>{words.value.tokens(end.usage.inputTokens, end.usage.outputTokens)}</span>
      <span>{duration(end.durationMs)}</span>
      {end.model && <span>{end.model}</span>}
    </>
  );
  return href === undefined ? amounts : <a class="bill-amounts" href={href} title={words.value.turnDetails}>{amounts}</a>;
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
      return item.live ? <LiveAnswer item={item} open={open} /> : <Answer item={item} />;
    case "tool":
      return <ToolCard item={item} />;
    case "error":
      return <Failed item={item} open={open} />;
  }
}

/** Codes after which the same question may be answered. */
const RECOVERABLE = /^(provider_(?!auth_failed|bad_request)|timeout$|store_failed$|server_busy$|quota_exceeded$|wallet_empty$|turn_limit_reached$|internal_error$)/;

function Failed({ item, open }: { item: ErrorItem; open: OpenConversation }): JSX.Element {
  return (
    <Problem code={item.code} text={item.text}>
      {RECOVERABLE.test(item.code) && <Button onClick={() => attempt(open.answerAgain(undefined))}>{words.value.tryAgain}</Button>}
      {item.turnId !== undefined && may("logs:read") && <a class="btn" href={`/activity/logs?turn=${item.turnId}`}>{words.value.showInLogs}</a>}
    </Problem>
  );
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
      <div class="said" dir="auto" lang={languageOf(item.text)}>{item.text}</div>
      <Files files={item.files} containerId={open.about.value?.containerId ?? ""} />
      {item.clientKey !== undefined && item.files.length > 0 && <Progress clientKey={item.clientKey} />}
      {item.refused && (
        <Problem code={item.refused.code} text={item.refused.text}>
          <Button onClick={() => attempt(open.retry(item.id))}>{words.value.tryAgain}</Button>
          <Button onClick={() => attempt(writeAnew(item, open))}>{words.value.edit}</Button>
          <Button onClick={() => attempt(open.discard(item.id))}>{words.value.discard}</Button>
        </Problem>
      )}
    </div>
  );
}

async function writeAnew(item: UserItem, open: OpenConversation): Promise<void> {
  await open.discard(item.id);
  writeAgain(open.sessionId, item.text);
  document.querySelector<HTMLElement>(".composer textarea")?.focus();
}

function Progress({ clientKey }: { clientKey: string }): JSX.Element | null {
  const part = progress.value[clientKey];
  return part === undefined ? null : <progress max={1} value={part} aria-label={words.value.sending(Math.round(part * 100))} />;
}

/** A question that is being changed. What was written stays if the server refuses it. */
function Editor({ item, open }: { item: UserItem; open: OpenConversation }): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
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

/** An answer that is being written. Only this is drawn while it grows. */
function LiveAnswer({ item, open }: { item: AnswerItem; open: OpenConversation }): JSX.Element {
  const { turnId, text, thinking } = open.live.value;
  return <Answer item={turnId === item.turnId ? { ...item, text: item.text + text, thinking: item.thinking + thinking } : item} />;
}

function Answer({ item }: { item: AnswerItem }): JSX.Element {
  return (
    <div class={item.live ? "answer answer-live" : "answer"} lang={languageOf(item.text)}>
      {item.thinking !== "" && (
        <details class="thinking">
          <summary>{words.value.thinking}</summary>
          <div dir="auto">{item.thinking}</div>
        </details>
      )}
      <Markdown text={item.text} />
      {item.citations !== undefined && <Citations citations={item.citations} />}
    </div>
  );
}
