import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { SessionRow } from "../link/frames.ts";
import { onOpen } from "../link/socket.ts";
import { archive, archived } from "../state/sessions.ts";
import { Button } from "../ui/button.tsx";
import { attempt } from "../ui/toast.tsx";
import { when } from "../words/format.ts";
import { language, words } from "../words/index.ts";

/** Conversations that are out of the list. */
export default function Archive(): JSX.Element {
  const [rows, setRows] = useState<SessionRow[] | undefined>(undefined);
  const load = () => archived().then(setRows);
  useEffect(() => onOpen(() => attempt(load())), []);
  return (
    <main class="main page">
      <h1>{words.value.archived}</h1>
      {rows?.length === 0 && <p class="empty">{words.value.archiveNothing}</p>}
      <ul class="lines">
        {rows?.map((row) => (
          <li key={row.sessionId}>
            <a href={`/c/${row.sessionId}`} dir="auto">{row.title ?? row.preview ?? words.value.untitled}</a>
            <time>{when(row.updatedAt, language.value, Date.now())}</time>
            <Button onClick={() => attempt(archive(row.sessionId, false).then(load))}>{words.value.bringBack}</Button>
          </li>
        ))}
      </ul>
    </main>
  );
}
