import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { OpenConversation } from "../state/conversation.ts";
import { type Conversation, type Item, rowsOf, type TurnEnd } from "../state/fold.ts";
import { Button } from "../ui/button.tsx";
import { attempt, toast } from "../ui/toast.tsx";
import { words } from "../words/index.ts";
import { Row } from "./message.tsx";
import { TakenBack } from "./taken_back.tsx";

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
  const place = useKeptPlace(view, open.now.value.items[0]?.id);
  const [marked, setMarked] = useState<string | undefined>(undefined);
  const now = open.now.value;
  const isRead = !open.loading.value;

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
    if (named === "" || !isRead) return;
    follows.current = false;
    attempt(
      open.reach(named).then((item) => {
        setMarked(item?.id);
        if (item === undefined) toast(words.value.messageGone);
        else afterDrawing(() => document.getElementById(item.id)?.scrollIntoView({ block: "center" }));
      }),
    );
  }, [open, named, isRead]);

  function onScroll(event: Event): void {
    const element = event.currentTarget as HTMLElement;
    if (element.scrollHeight - element.scrollTop - element.clientHeight < 8) follows.current = true;
  }
  function earlier(): void {
    follows.current = false;
    place();
    attempt(open.loadOlder());
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
        {open.older.value && <Button onClick={earlier}>{words.value.loadEarlier}</Button>}
        {isRead && now.items.length === 0 && !open.problem.value && <p class="empty">{words.value.emptyChat}</p>}
        {rowsOf(now, open.older.value !== undefined).map((row, index, rows) => {
          if ("rewindId" in row) return <TakenBack key={row.rewindId} rewind={row} open={open} go={go} />;
          const [before, after] = [turnOf(rows[index - 1]), turnOf(rows[index + 1])];
          return (
            <Row
              key={row.id}
              item={row}
              name={row.kind !== "user" && (before === undefined || before !== row.turnId || isQuestion(rows[index - 1])) ? name : undefined}
              isLast={(row.turnId === undefined || after !== row.turnId) && isSettled(now, row)}
              end={after === row.turnId ? undefined : endOf(now, row)}
              isMarked={row.id === marked}
              open={open}
              go={go}
            />
          );
        })}
      </div>
    </div>
  );
}

type Rows = ReturnType<typeof rowsOf>;
const isQuestion = (row: Rows[number] | undefined) => row !== undefined && "kind" in row && row.kind === "user";
const turnOf = (row: Rows[number] | undefined) => (row !== undefined && "kind" in row ? row.turnId : undefined);

/** Whether nothing more comes of the turn of an item. A turn that waited before this client came is known by its call. */
function isSettled(now: Conversation, item: Item): boolean {
  if (item.kind === "user" || now.running.includes(item.turnId ?? "")) return false;
  return item.kind !== "tool" || (item.state !== "waiting" && item.state !== "running");
}

/** The end of the turn, for the last item of it. */
function endOf(now: Conversation, item: Item): TurnEnd | undefined {
  return item.turnId !== undefined && item.kind !== "user" ? now.ends[item.turnId] : undefined;
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
