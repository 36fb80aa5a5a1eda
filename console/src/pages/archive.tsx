import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { SessionRow } from "../link/frames.ts";
import { onOpen } from "../link/socket.ts";
import { archive, putAway, restore } from "../state/sessions.ts";
import { Button } from "../ui/button.tsx";
import { Page } from "../ui/page.tsx";
import { Section } from "../ui/parts.tsx";
import { Bones, More } from "../ui/shown.tsx";
import { attempt } from "../ui/toast.tsx";
import { when } from "../words/format.ts";
import { language, words } from "../words/index.ts";

/** Conversations that are out of the list: archived ones, and deleted ones while they can be restored. */
export default function Archive(): JSX.Element {
  const kept = useRows("archived");
  const gone = useRows("deleted");
  const date = (at: number) => when(at, language.value, Date.now());
  return (
    <Page title={words.value.archived}>
      {(kept.rows === undefined || gone.rows === undefined) && <Bones />}
      {kept.rows?.length === 0 && <p class="empty">{words.value.archiveNothing}</p>}
      <ul class="lines" aria-label={words.value.archived}>
        {kept.rows?.map((row) => (
          <li key={row.sessionId}>
            <a href={`/c/${row.sessionId}`} dir="auto">{nameOf(row)}</a>
            <time>{date(row.updatedAt)}</time>
            <Button onClick={() => attempt(archive(row.sessionId, false).then(kept.load))}>{words.value.bringBack}</Button>
          </li>
        ))}
      </ul>
      <More more={kept.more} />
      {gone.rows !== undefined && (
        <Section title={words.value.deletedOnes}>
          {gone.rows.length === 0 && <p class="empty">{words.value.deletedNothing}</p>}
          <ul class="lines" aria-label={words.value.deletedOnes}>
            {gone.rows.map((row) => (
              <li key={row.sessionId}>
                <span class="line-name" dir="auto">{nameOf(row)}</span>
                {row.restorableUntil !== undefined && <time>{words.value.gone(date(row.restorableUntil))}</time>}
                <Button onClick={() => attempt(restore(row.sessionId).then(() => Promise.all([gone.load(), kept.load()])))}>{words.value.restore}</Button>
              </li>
            ))}
          </ul>
          <More more={gone.more} />
        </Section>
      )}
    </Page>
  );
}

/** One of the two lists, in pages. */
function useRows(kind: "archived" | "deleted") {
  const [shown, setShown] = useState<{ rows?: SessionRow[]; next?: string | undefined }>({});
  const read = async (rows: SessionRow[], cursor?: string) => {
    const page = await putAway(kind, cursor);
    setShown({ rows: [...rows, ...page.sessions], next: page.nextCursor });
  };
  const load = () => read([]);
  useEffect(() => onOpen(() => attempt(load())), []);
  const { rows = [], next } = shown;
  return { rows: shown.rows, load, more: next === undefined ? undefined : async () => attempt(read(rows, next)) };
}

const nameOf = (row: SessionRow) => row.title ?? row.preview ?? words.value.untitled;
