import { useSignal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Markdown } from "../markdown/view.tsx";
import { OpenConversation } from "../state/conversation.ts";
import type { AnswerItem, Conversation, Item, TurnEnd } from "../state/fold.ts";
import { begin, remove, rename, restore, sessions } from "../state/sessions.ts";
import { IconButton, Button } from "../ui/button.tsx";
import { toast } from "../ui/toast.tsx";
import { clock, duration, money } from "../words/format.ts";
import { language, words } from "../words/index.ts";
import { Composer } from "./composer.tsx";
import { ToolCard } from "./tool_card.tsx";

interface Props {
  sessionId?: string;
  go: (path: string) => void;
}

/** A conversation, or the beginning of one. */
export function Chat({ sessionId, go }: Props): JSX.Element {
  return sessionId === undefined ? <NewChat go={go} /> : <OpenChat key={sessionId} sessionId={sessionId} go={go} />;
}

function NewChat({ go }: Pick<Props, "go">): JSX.Element {
  async function start(text: string): Promise<void> {
    try {
      const sessionId = await begin();
      const opened = new OpenConversation(sessionId);
      await opened.send(text);
      go(`/c/${sessionId}`);
    } catch (error) {
      sessionStorage.setItem("avm.draft.new", text);
      toast(error instanceof Error ? error.message : String(error));
    }
  }
  return (
    <main class="main">
      <div class="welcome">
        <h1>{words.value.emptyChat}</h1>
      </div>
      <Composer draftKey="new" busy={false} onSend={(text) => void start(text)} onStop={() => {}} />
    </main>
  );
}

function OpenChat({ sessionId, go }: { sessionId: string; go: (path: string) => void }): JSX.Element {
  const open = useMemo(() => new OpenConversation(sessionId), [sessionId]);
  useEffect(() => {
    open.start();
    return () => open.stop();
  }, [open]);
  const row = sessions.value?.find((one) => one.sessionId === sessionId);
  const now = open.now.value;
  const busy = now.running.length > 0 && !now.parked;

  const stop = () => void open.stopTurn().catch((error: Error) => toast(error.message));
  return (
    <main class="main">
      <Heading sessionId={sessionId} title={row?.title ?? row?.preview ?? words.value.untitled} go={go} />
      <Log open={open} />
      <Announcement now={now} />
      <Composer draftKey={sessionId} busy={busy} onSend={(text) => void open.send(text)} onStop={stop} />
    </main>
  );
}

function Heading({ sessionId, title, go }: { sessionId: string; title: string; go: (path: string) => void }): JSX.Element {
  const editing = useSignal(false);
  const field = useRef<HTMLInputElement>(null);
  useSignalEffect(() => {
    if (editing.value) requestAnimationFrame(() => field.current?.focus());
  });

  function save(event: SubmitEvent): void {
    event.preventDefault();
    editing.value = false;
    void rename(sessionId, field.current?.value ?? "").catch((error: Error) => toast(error.message));
  }
  async function drop(): Promise<void> {
    try {
      await remove(sessionId);
      toast(words.value.deleted, { label: words.value.undo, run: () => void restore(sessionId).then(() => go(`/c/${sessionId}`)) });
      go("/");
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error));
    }
  }
  return (
    <header class="heading">
      <a class="btn-icon only-narrow" href="/" aria-label={words.value.showList}>‹</a>
      {editing.value ? (
        <form onSubmit={save}>
          <input ref={field} defaultValue={title} aria-label={words.value.title} maxLength={200} />
        </form>
      ) : (
        <h1 dir="auto">{title}</h1>
      )}
      <IconButton icon="pen" label={words.value.rename} onClick={() => (editing.value = !editing.value)} />
      <IconButton icon="bin" label={words.value.delete} onClick={() => void drop()} />
    </header>
  );
}

/** The messages. The end stays in sight until the reader scrolls up, and again when they come back to it. */
function Log({ open }: { open: OpenConversation }): JSX.Element {
  const view = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const now = open.now.value;

  useEffect(() => {
    const element = view.current;
    if (element === null) return;
    const watch = new ResizeObserver(() => {
      if (follows.current) element.scrollTop = element.scrollHeight;
    });
    watch.observe(element);
    if (element.firstElementChild !== null) watch.observe(element.firstElementChild);
    return () => watch.disconnect();
  }, []);

  function onScroll(event: Event): void {
    const element = event.currentTarget as HTMLElement;
    if (element.scrollHeight - element.scrollTop - element.clientHeight < 8) follows.current = true;
  }
  return (
    <div
      class="log"
      ref={view}
      role="log"
      aria-live="off"
      tabIndex={0}
      aria-label={words.value.chat}
      onScroll={onScroll}
      onWheel={(event) => {
        if (event.deltaY < 0) follows.current = false;
      }}
      onTouchMove={() => (follows.current = false)}
      onKeyDown={(event) => {
        if (["ArrowUp", "PageUp", "Home"].includes(event.key)) follows.current = false;
      }}
    >
      <div class="log-inner">
        {open.problem.value && <p class="problem" role="alert">{open.problem.value}</p>}
        {open.older.value && (
          <Button onClick={() => void open.loadOlder().catch((error: Error) => toast(error.message))}>{words.value.loadEarlier}</Button>
        )}
        {!open.loading.value && now.items.length === 0 && !open.problem.value && <p class="empty">{words.value.emptyChat}</p>}
        {now.items.map((item, index) => (
          <Row key={item.id} item={item} end={endOf(now, item, now.items[index + 1])} open={open} />
        ))}
      </div>
    </div>
  );
}

/** The end of the turn, for the last item of it. */
function endOf(now: Conversation, item: Item, next: Item | undefined): TurnEnd | undefined {
  return item.turnId !== undefined && item.kind !== "user" && next?.turnId !== item.turnId ? now.ends[item.turnId] : undefined;
}

function Row({ item, end, open }: { item: Item; end: TurnEnd | undefined; open: OpenConversation }): JSX.Element | null {
  // A step that only calls tools says nothing.
  if (item.kind === "answer" && !item.live && item.text === "" && item.thinking === "" && end === undefined) return null;
  return (
    <article class={`item item-${item.kind}`} id={item.id}>
      <Body item={item} open={open} />
      {end && (
        <footer class="bill">
          {end.priceNano !== undefined && <span title={`${end.priceNano} nano-USD`}>{money(end.priceNano)}</span>}
          <span>{words.value.tokens(end.usage.inputTokens, end.usage.outputTokens)}</span>
          <span>{duration(end.durationMs)}</span>
          {end.model && <span>{end.model}</span>}
        </footer>
      )}
    </article>
  );
}

function Body({ item, open }: { item: Item; open: OpenConversation }): JSX.Element {
  switch (item.kind) {
    case "user":
      return (
        <div class={item.clientKey === undefined ? "bubble" : "bubble bubble-pending"}>
          <p class="who">
            {words.value.you} <time>{clock(item.at, language.value)}</time>
          </p>
          <div class="said" dir="auto">{item.text}</div>
          {item.files.map((name) => (
            <span class="chip" key={name}>{name}</span>
          ))}
          {item.refused && (
            <p class="problem" role="alert">
              {item.refused} <Button onClick={() => void open.discard(item.id)}>{words.value.discard}</Button>
            </p>
          )}
        </div>
      );
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

/** Says when an answer begins and ends, and not every word of it. */
function Announcement({ now }: { now: Conversation }): JSX.Element {
  const spoken = useRef({ busy: false, text: "" });
  const busy = now.running.length > 0;
  if (busy !== spoken.current.busy) {
    const last = now.items.findLast((item) => item.kind === "answer");
    const count = last?.kind === "answer" ? last.text.split(/\s+/).filter(Boolean).length : 0;
    spoken.current = { busy, text: busy ? words.value.answering : words.value.answerFinished(count) };
  }
  return <p class="unseen" role="status">{spoken.current.text}</p>;
}
