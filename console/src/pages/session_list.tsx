import type { JSX } from "preact";
import type { SessionRow } from "../link/frames.ts";
import { drafted } from "../state/drafts.ts";
import { answering, hasMore, sessions, showMore } from "../state/sessions.ts";
import { IconButton } from "../ui/button.tsx";
import { Icon } from "../ui/icons.tsx";
import { Bones, More } from "../ui/shown.tsx";
import { when } from "../words/format.ts";
import { language, words } from "../words/index.ts";

interface Props {
  open?: string;
  onNew: () => void;
}

/** The conversations: pinned ones, those of today, earlier ones. */
export function SessionList({ open, onNew }: Props): JSX.Element {
  const all = sessions.value;
  const today = new Date().setHours(0, 0, 0, 0);
  const groups: [string, SessionRow[]][] = [
    [words.value.pinned, (all ?? []).filter((row) => row.pinnedAt !== undefined)],
    [words.value.today, (all ?? []).filter((row) => row.pinnedAt === undefined && row.updatedAt >= today)],
    [words.value.earlier, (all ?? []).filter((row) => row.pinnedAt === undefined && row.updatedAt < today)],
  ];
  return (
    <nav class="list" aria-label={words.value.chat}>
      <header>
        <h2>{words.value.chat}</h2>
        <IconButton icon="plus" label={words.value.newChat} onClick={onNew} />
      </header>
      {all === undefined && <Bones />}
      {all?.length === 0 && <p class="empty">{words.value.emptyList}</p>}
      {groups.map(([name, rows]) =>
        rows.length === 0 ? null : (
          <section key={name}>
            <h3>{name}</h3>
            <ul>
              {rows.map((row) => (
                <Row key={row.sessionId} row={row} open={row.sessionId === open} />
              ))}
            </ul>
          </section>
        ),
      )}
      <More more={hasMore.value ? showMore : undefined} />
      <a class="list-more" href="/archive">{words.value.archived}</a>
    </nav>
  );
}

function Row({ row, open }: { row: SessionRow; open: boolean }): JSX.Element {
  const busy = answering.value.has(row.sessionId);
  const unread = busy || open ? 0 : (row.unread ?? 0);
  return (
    <li>
      <a href={`/c/${row.sessionId}`} aria-current={open ? "page" : undefined} class="row">
        <span class={unread > 0 ? "row-title row-unread" : "row-title"} dir="auto">
          {row.forkedFrom && <span class="row-fork" title={words.value.forkedFrom}><Icon name="fork" /></span>}
          {row.title ?? row.preview ?? words.value.untitled}
        </span>
        <time class="row-time">{when(row.lastMessageAt ?? row.updatedAt, language.value, Date.now())}</time>
        <span class="row-preview" dir="auto">
          {drafted.value.has(row.sessionId) && !open && <em class="row-draft">{words.value.draft} </em>}
          {row.preview}
        </span>
        {busy && <span class="dot" role="img" aria-label={words.value.answering} />}
        {unread > 0 && <span class="count">{unread}</span>}
      </a>
    </li>
  );
}
