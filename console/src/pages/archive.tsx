import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { SessionRow } from "../link/frames.ts";
import { onOpen } from "../link/socket.ts";
import { archive, archived, deleted, restore } from "../state/sessions.ts";
import { Button } from "../ui/button.tsx";
import { attempt } from "../ui/toast.tsx";
import { when } from "../words/format.ts";
import { language, words } from "../words/index.ts";

/** Conversations that are out of the list: archived ones, and deleted ones while they can be restored. */
export default function Archive(): JSX.Element {
  const [rows, setRows] = useState<{ archived: SessionRow[]; deleted: SessionRow[] } | undefined>(undefined);
  const load = () => Promise.all([archived(), deleted()]).then(([kept, gone]) => setRows({ archived: kept, deleted: gone }));
  useEffect(() => onOpen(() => attempt(load())), []);
  const date = (at: number) => when(at, language.value, Date.now());
  return (
    <main class="main page">
      <h1>{words.value.archived}</h1>
      {rows?.archived.length === 0 && <p class="empty">{words.value.archiveNothing}</p>}
      <ul class="lines" aria-label={words.value.archived}>
        {rows?.archived.map((row) => (
          <li key={row.sessionId}>
            <a href={`/c/${row.sessionId}`} dir="auto">{nameOf(row)}</a>
            <time>{date(row.updatedAt)}</time>
            <Button onClick={() => attempt(archive(row.sessionId, false).then(load))}>{words.value.bringBack}</Button>
          </li>
        ))}
      </ul>
      <h2>{words.value.deletedOnes}</h2>
      {rows?.deleted.length === 0 && <p class="empty">{words.value.deletedNothing}</p>}
      <ul class="lines" aria-label={words.value.deletedOnes}>
        {rows?.deleted.map((row) => (
          <li key={row.sessionId}>
            <span class="line-name" dir="auto">{nameOf(row)}</span>
            {row.restorableUntil !== undefined && <time>{words.value.gone(date(row.restorableUntil))}</time>}
            <Button onClick={() => attempt(restore(row.sessionId).then(load))}>{words.value.restore}</Button>
          </li>
        ))}
      </ul>
    </main>
  );
}

const nameOf = (row: SessionRow) => row.title ?? row.preview ?? words.value.untitled;
