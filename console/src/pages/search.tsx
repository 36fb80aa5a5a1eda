import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { FoundRecord, ImageRecord, TitleRecord } from "../link/client.ts";
import type { ApiError } from "../link/http.ts";
import { ask, onOpen } from "../link/socket.ts";
import { hasOwnName } from "../state/agents.ts";
import { apiError, withQuery } from "../state/data.ts";
import { pieces } from "../state/snippet.ts";
import { Field } from "../ui/form.tsx";
import { Page } from "../ui/page.tsx";
import { Bones, Failure, More } from "../ui/shown.tsx";
import { when } from "../words/format.ts";
import { language, words } from "../words/index.ts";

const PAGE = 50;
/** The titles that are shown before the messages; the others are asked for. */
const TITLES_MAX = 5;
const DAY_MS = 86_400_000;
const DAYS = [1, 7, 30, 365];
const ROLES = ["user", "assistant", "tool"] as const;
const FILTERS = ["q", "role", "tool", "days", "agent", "session"] as const;

type Query = Readonly<Record<string, string>>;

interface Found {
  /** The words and filters that it was found with. */
  asked: string;
  hits: FoundRecord[];
  titles: TitleRecord[];
  total: number;
  isCapped: boolean;
  next: string | undefined;
}

interface Props {
  query: Query;
  go: (path: string) => void;
}

/** Search in all messages. The words and the filters are in the address, so a search can be passed on. */
export default function Search({ query, go }: Props): JSX.Element {
  const [found, setFound] = useState<Found | undefined>(undefined);
  const [error, setError] = useState<ApiError | undefined>(undefined);
  const asked = withQuery("", query);
  const hasWords = (query["q"] ?? "").trim() !== "";

  useEffect(() => {
    setError(undefined);
    if (!hasWords) return;
    let current = true;
    const end = onOpen(() => {
      find(query)
        .then((first) => {
          if (!current) return;
          setFound({ asked, ...first });
          setError(undefined);
        })
        .catch((thrown: unknown) => current && setError(apiError(thrown)));
    });
    return () => {
      current = false;
      end();
    };
  }, [asked]);

  async function more(): Promise<void> {
    if (found?.next === undefined) return;
    try {
      const page = await find(query, found.next);
      setFound({ asked, ...page, hits: [...found.hits, ...page.hits], titles: found.titles });
    } catch (thrown) {
      setError(apiError(thrown));
    }
  }
  return (
    <Page title={words.value.search}>
      <Filters query={query} onChange={(next) => go(withQuery("/search", next))} />
      {error !== undefined && <Failure error={error} />}
      {hasWords && error === undefined && found?.asked !== asked && <Bones />}
      {hasWords && found?.asked === asked && <Hits found={found} query={query} more={found.next === undefined ? undefined : more} />}
    </Page>
  );
}

async function find(query: Query, cursor?: string): Promise<Omit<Found, "asked">> {
  const days = Number(query["days"]);
  const role = ROLES.find((one) => one === query["role"]);
  const reply = await ask("session_search", {
    q: query["q"] ?? "",
    limit: PAGE,
    ...(cursor && { cursor }),
    ...(role && { role }),
    ...(query["tool"] && { tool: query["tool"] }),
    ...(days > 0 && { since: Date.now() - days * DAY_MS }),
    ...(query["agent"] && { imageId: query["agent"] }),
    ...(query["session"] && { sessionId: query["session"] }),
  });
  return { hits: reply.found, titles: reply.titles ?? [], total: reply.total, isCapped: reply.capped ?? false, next: reply.nextCursor };
}

function Filters({ query, onChange }: { query: Query; onChange: (next: Record<string, string>) => void }): JSX.Element {
  const text = words.value;
  const images = useNamedImages();
  const given = (name: string) => query[name] ?? "";
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (given("q") === "") field.current?.focus();
  }, []);
  const submit = (event: Event & { currentTarget: HTMLSelectElement }) => event.currentTarget.form?.requestSubmit();
  return (
    <form
      class="filters search-filters"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        onChange(Object.fromEntries(FILTERS.map((name) => [name, String(form.get(name) ?? "").trim()])));
      }}
    >
      <div class="field search-words">
        <input ref={field} type="search" name="q" key={given("q")} defaultValue={given("q")} aria-label={text.search} maxLength={500} />
      </div>
      <Field label={text.searchRole}>
        {(control) => (
          <select {...control} name="role" value={given("role")} onChange={submit}>
            <option value="">{text.searchAll}</option>
            {ROLES.map((role) => <option key={role} value={role}>{text.searchRoles[role]}</option>)}
          </select>
        )}
      </Field>
      <Field label={text.searchSince}>
        {(control) => (
          <select {...control} name="days" value={given("days")} onChange={submit}>
            <option value="">{text.searchAll}</option>
            {DAYS.map((days) => <option key={days} value={String(days)}>{text.searchDays(days)}</option>)}
          </select>
        )}
      </Field>
      {(images.length > 0 || given("agent") !== "") && (
        <Field label={text.agent}>
          {(control) => (
            <select {...control} name="agent" value={given("agent")} onChange={submit}>
              <option value="">{text.searchAll}</option>
              {images.map(({ imageId, name }) => <option key={imageId} value={imageId}>{name}</option>)}
            </select>
          )}
        </Field>
      )}
      {given("role") === "tool" && (
        <Field label={text.searchTool}>
          {(control) => <input {...control} type="search" name="tool" key={given("tool")} defaultValue={given("tool")} maxLength={100} />}
        </Field>
      )}
      {given("session") !== "" && (
        <label class="check"><input type="checkbox" name="session" value={given("session")} checked onChange={(event) => event.currentTarget.form?.requestSubmit()} /> {text.searchHere}</label>
      )}
    </form>
  );
}

/** The agents that somebody has given a name. Those of single conversations have none. */
function useNamedImages(): readonly ImageRecord[] {
  const [images, setImages] = useState<readonly ImageRecord[]>([]);
  useEffect(() => onOpen(() => {
    // Who may not list agents searches without this filter.
    ask("image_list", {}).then(({ records }) => setImages(records.filter(hasOwnName)), () => undefined);
  }), []);
  return images;
}

function Hits({ found, query, more }: { found: Found; query: Query; more: (() => Promise<void>) | undefined }): JSX.Element {
  const text = words.value;
  const { hits, titles, total, isCapped } = found;
  const isFiltered = FILTERS.some((name) => name !== "q" && (query[name] ?? "") !== "");
  if (hits.length === 0 && titles.length === 0) {
    return (
      <div class="nothing">
        <p class="empty">{text.searchNothing}</p>
        {isFiltered && <a class="btn" href={withQuery("/search", { q: query["q"] })}>{text.searchAnywhere}</a>}
      </div>
    );
  }
  return (
    <>
      {titles.length > 0 && <Titles key={found.asked} titles={titles} />}
      <p class="hint" role="status">{text.searchCount(total.toLocaleString(language.value), total)}{isCapped && ` ${text.searchCapped}`}</p>
      <ul class="hits">
        {hits.map((hit) => (
          <li key={hit.messageId}>
            <a href={`/c/${hit.sessionId}#${hit.messageId}`}>
              <strong dir="auto">{hit.title ?? text.untitled}</strong>
              <span class="hit-role">{hit.tool ?? text.searchRoles[hit.role]}</span>
              <Time at={hit.at} />
              <p dir="auto"><Snippet html={hit.snippet} isWritten={hit.role !== "assistant"} /></p>
            </a>
          </li>
        ))}
      </ul>
      <More more={more} />
    </>
  );
}

/** The conversations that have the words in their titles: the best few, until more are asked for. */
function Titles({ titles }: { titles: readonly TitleRecord[] }): JSX.Element {
  const [most, setMost] = useState(TITLES_MAX);
  return (
    <>
      <p class="hint" id="titles-found">{words.value.searchTitles}</p>
      <ul class="hits" aria-labelledby="titles-found">
        {titles.slice(0, most).map((title) => (
          <li key={title.sessionId}>
            <a href={`/c/${title.sessionId}`}><strong><Snippet html={title.snippet} isWritten /></strong> <Time at={title.at} /></a>
          </li>
        ))}
      </ul>
      <More more={titles.length <= most ? undefined : async () => setMost(titles.length)} />
    </>
  );
}

const Time = ({ at }: { at: number }): JSX.Element => <time>{when(at, language.value, Date.now())}</time>;

/** The words that were found are marked. `isWritten`: it is shown as it was written, not as Markdown. */
function Snippet({ html, isWritten }: { html: string; isWritten: boolean }): JSX.Element {
  return <>{pieces(html, isWritten).map(({ text, isMarked }, index) => (isMarked ? <mark key={index}>{text}</mark> : text))}</>;
}
