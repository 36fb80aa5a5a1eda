import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { OpenConversation } from "../state/conversation.ts";
import type { SessionRow } from "../link/frames.ts";
import type { Summary } from "../state/conversation.ts";
import { type Conversation, type Item, rowsOf, type TurnEnd } from "../state/fold.ts";
import { Button } from "../ui/button.tsx";
import { Problem } from "../ui/problem.tsx";
import { attempt, toast } from "../ui/toast.tsx";
import { words } from "../words/index.ts";
import { Row } from "./message.tsx";
import { TakenBack } from "./taken_back.tsx";

/** Rows in the document; further ones are brought in by pages, both ways. */
const ROWS_MAX = 200;
const PAGE = 100;
const READ_MS = 1_000;
const NO_FORKS: readonly SessionRow[] = [];

interface Props {
  open: OpenConversation;
  /** The message that the address names. */
  named: string;
  name: string;
  go: (path: string) => void;
}

/** The messages. The end stays in sight until the reader scrolls up, and again when they come back to it. */
export function Log({ open, named, name, go }: Props): JSX.Element {
  const view = useRef<HTMLDivElement>(null);
  const follows = useRef(named === "");
  const [marked, setMarked] = useState<string | undefined>(undefined);
  const now = open.now.value;
  const isRead = !open.loading.value;
  const all = rowsOf(now, open.older.value !== undefined);
  // Where the shown rows begin, counted from the end, so that new messages do not move it.
  const [fromEnd, setFromEnd] = useState(ROWS_MAX);
  const start = Math.max(0, all.length - Math.max(fromEnd, ROWS_MAX));
  const rows = all.slice(start, start + ROWS_MAX);
  const forks = forksByMessage(open.forks.value);
  const place = useKeptPlace(view, rows.find((row) => "kind" in row)?.id);
  useReadMark(open, follows);

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

  useEffect(() => {
    if (named === "" || !open.isRead.value) return;
    follows.current = false;
    attempt(
      open.reach(named).then((item) => {
        setMarked(item?.id);
        if (item !== undefined) {
          const items = open.latest.items;
          setFromEnd(items.length - items.indexOf(item) + ROWS_MAX / 2);
        }
        if (item === undefined) toast(words.value.messageGone);
        else afterDrawing(() => document.getElementById(item.id)?.scrollIntoView({ block: "center" }));
      }),
    );
  }, [open, named, open.isRead.value]);

  function onScroll(event: Event): void {
    const element = event.currentTarget as HTMLElement;
    if (element.scrollHeight - element.scrollTop - element.clientHeight < 8) follows.current = true;
  }
  function earlier(): void {
    follows.current = false;
    place();
    const step = (count: number) => setFromEnd(Math.max(fromEnd, ROWS_MAX) + count);
    if (start > 0) step(Math.min(start, PAGE));
    else attempt(open.loadOlder().then(() => step(PAGE)));
  }
  function later(): void {
    setFromEnd(Math.max(ROWS_MAX, fromEnd - PAGE));
  }
  return (
    <div
      class="log"
      ref={view}
      role="log"
      aria-live="off"
      aria-busy={!open.isRead.value}
      tabIndex={0}
      aria-label={words.value.chat}
      onScroll={onScroll}
      onWheel={(event) => {
        if (event.deltaY < 0) follows.current = false;
      }}
      onTouchMove={() => (follows.current = false)}
      onPointerDown={(event) => {
        // On the bar that scrolls, beside the messages.
        if (event.target === event.currentTarget && event.offsetX >= event.currentTarget.clientWidth) follows.current = false;
      }}
      onKeyDown={(event) => {
        if (["ArrowUp", "PageUp", "Home"].includes(event.key)) follows.current = false;
      }}
    >
      <div class="log-inner">
        {open.problem.value && (
          <Problem code={open.problem.value.code} text={open.problem.value.text}>
            {open.problem.value.code === "session_not_found" && <a class="btn" href="/">{words.value.chat}</a>}
          </Problem>
        )}
        {(open.older.value !== undefined || start > 0) && <Button onClick={earlier}>{words.value.loadEarlier}</Button>}
        {isRead && now.items.length === 0 && !open.problem.value && <p class="empty">{words.value.emptyChat}</p>}
        {rows.map((row, index) => {
          if ("rewindId" in row) return <TakenBack key={row.rewindId} rewind={row} open={open} go={go} />;
          const [before, after] = [turnOf(all[start + index - 1]), turnOf(all[start + index + 1])];
          const summary = open.summaries.value.find((one) => one.messageId === row.id);
          const message = (
            <Row
              key={row.id}
              item={row}
              name={row.kind !== "user" && (before === undefined || before !== row.turnId || isQuestion(all[start + index - 1])) ? name : undefined}
              isLast={(row.turnId === undefined || after !== row.turnId) && isSettled(now, row)}
              end={after === row.turnId ? undefined : endOf(now, row)}
              isMarked={row.id === marked}
              forks={forks.get(row.id) ?? NO_FORKS}
              open={open}
              go={go}
            />
          );
          return summary === undefined ? message : [message, <SummaryStub key={summary.summaryId} summary={summary} />];
        })}
        {isThinking(now) && <Thinking name={now.items.at(-1)?.kind === "user" ? name : undefined} />}
        {start + ROWS_MAX < all.length && <Button onClick={later}>{words.value.laterMessages}</Button>}
      </div>
    </div>
  );
}

/** Whether an answer is on its way of which nothing is shown yet. */
function isThinking({ running, parked, items }: Conversation): boolean {
  const last = items.at(-1);
  const isSaid = last?.kind === "error" || (last?.kind === "answer" && last.live) || (last?.kind === "tool" && last.state === "running");
  return running.length > 0 && !parked && !isSaid;
}

function Thinking({ name }: { name: string | undefined }): JSX.Element {
  return (
    <div class="item-thinking" aria-hidden="true">
      {name !== undefined && <p class="who">{name}</p>}
      <span class="live-mark" />
    </div>
  );
}

/** A summary stands after the last message that it covers. */
function SummaryStub({ summary }: { summary: Summary }): JSX.Element {
  return (
    <details class="taken">
      <summary>{words.value.summarized}</summary>
      <div class="taken-text said" dir="auto">{summary.text}</div>
    </details>
  );
}

function forksByMessage(forks: readonly SessionRow[]): ReadonlyMap<string, SessionRow[]> {
  const groups = new Map<string, SessionRow[]>();
  for (const fork of forks) {
    const messageId = fork.forkedFrom?.messageId ?? "";
    groups.set(messageId, [...(groups.get(messageId) ?? []), fork]);
  }
  return groups;
}

/** What is in sight at the end for a second has been read. */
function useReadMark(open: OpenConversation, follows: { current: boolean }): void {
  const last = open.now.value.items.at(-1)?.id;
  const isSettled = open.now.value.running.length === 0;
  useEffect(() => {
    if (last === undefined || !isSettled) return;
    let timer: ReturnType<typeof setTimeout>;
    const look = () => {
      clearTimeout(timer);
      if (!document.hidden) timer = setTimeout(() => follows.current && open.markRead(), READ_MS);
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [open, last, isSettled]);
}

type Rows = ReturnType<typeof rowsOf>;
const isQuestion = (row: Rows[number] | undefined) => row !== undefined && "kind" in row && row.kind === "user";
const turnOf = (row: Rows[number] | undefined) => (row !== undefined && "kind" in row ? row.turnId : undefined);

/** Whether nothing more comes of the turn of an item. A turn that waited before this client came is known by its call. */
function isSettled(now: Conversation, item: Item): boolean {
  if (item.kind === "user" || now.running.includes(item.turnId ?? "")) return false;
  return item.kind !== "tool" || (item.state !== "waiting" && item.state !== "running");
}

/** The end of the turn, for the last item of it. A question is the last one of a turn that was stopped before its answer. */
function endOf(now: Conversation, item: Item): TurnEnd | undefined {
  const end = now.ends[item.turnId ?? ""];
  return item.kind !== "user" || end?.outcome === "interrupted" ? end : undefined;
}

/** Messages that were never drawn have only a guessed height: their drawing moves the others, for a frame or two. */
function afterDrawing(run: () => void, frames = 4): void {
  requestAnimationFrame(() => {
    run();
    if (frames > 1) afterDrawing(run, frames - 1);
  });
}

/** Keeps the first message where it stands while earlier ones come before it. Call the result before they are asked for. */
function useKeptPlace(view: { current: HTMLElement | null }, first: string | undefined): () => void {
  const kept = useRef<{ id: string; top: number } | undefined>(undefined);
  useLayoutEffect(() => {
    const { current } = kept;
    if (current === undefined || current.id === first) return;
    kept.current = undefined;
    const settle = () => {
      const top = document.getElementById(current.id)?.getBoundingClientRect().top;
      if (top !== undefined && view.current !== null) view.current.scrollTop += top - current.top;
    };
    settle();
    afterDrawing(settle);
  }, [first]);
  return () => {
    const top = first === undefined ? undefined : document.getElementById(first)?.getBoundingClientRect().top;
    kept.current = first === undefined || top === undefined ? undefined : { id: first, top };
  };
}
