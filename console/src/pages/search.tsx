import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, onOpen } from "../link/socket.ts";
import { when } from "../words/format.ts";
import { language, words } from "../words/index.ts";

interface Found {
  sessionId: string;
  messageId: string;
  title?: string | null;
  snippet: string;
  at?: number;
  timestamp?: number;
}

/** Search in all messages. The words are in the address, so a search can be passed on. */
export default function Search({ query, go }: { query: string; go: (path: string) => void }): JSX.Element {
  const [found, setFound] = useState<Found[] | undefined>(undefined);
  const [problem, setProblem] = useState("");

  useEffect(() => {
    if (query.trim() === "") return;
    let current = true;
    const end = onOpen(() => {
      ask("session_search", { q: query, limit: 50 })
        .then((reply) => {
          if (!current) return;
          setFound(reply.found);
          setProblem("");
        })
        .catch((error: Error) => current && setProblem(error.message));
    });
    return () => {
      current = false;
      end();
    };
  }, [query]);

  function submit(event: SubmitEvent): void {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget as HTMLFormElement).get("q")).trim();
    if (text !== "") go(`/search?q=${encodeURIComponent(text)}`);
  }
  return (
    <main class="main page">
      <h1>{words.value.search}</h1>
      <form role="search" onSubmit={submit}>
        <input type="search" name="q" defaultValue={query} aria-label={words.value.search} />
      </form>
      {problem !== "" && <p class="problem" role="alert">{problem}</p>}
      {found?.length === 0 && <p class="empty">{words.value.searchNothing}</p>}
      <ul class="hits">
        {found?.map((hit) => (
          <li key={hit.messageId}>
            <a href={`/c/${hit.sessionId}#${hit.messageId}`}>
              <strong dir="auto">{hit.title ?? words.value.untitled}</strong>
              <time>{when(hit.timestamp ?? hit.at ?? 0, language.value, Date.now())}</time>
              <Snippet html={hit.snippet} />
            </a>
          </li>
        ))}
      </ul>
    </main>
  );
}

const ENTITIES: Record<string, string> = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#x27;": "'", "&#39;": "'" };

/** The server marks words in escaped text. The marks are split off, and nothing is parsed as HTML. */
function Snippet({ html }: { html: string }): JSX.Element {
  const parts = html.split(/<\/?mark>/);
  const plain = (text: string) => text.replace(/&(?:lt|gt|amp|quot|#x27|#39);/g, (entity) => ENTITIES[entity] ?? entity);
  return (
    <p dir="auto">
      {parts.map((part, index) => (index % 2 === 1 ? <mark key={index}>{plain(part)}</mark> : plain(part)))}
    </p>
  );
}
