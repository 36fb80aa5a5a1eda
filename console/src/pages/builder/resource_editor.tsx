import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type ApiError, request } from "../../link/http.ts";
import { type Content, firstContent, isPlainPrompt, readableContent } from "../../state/builder.ts";
import { apiError, withQuery } from "../../state/data.ts";
import { lineOfPath, readPlaces } from "../../state/places.ts";
import { Button } from "../../ui/button.tsx";
import { CodeField } from "../../ui/code_field.tsx";
import { Diff } from "../../ui/diff.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Section } from "../../ui/parts.tsx";
import { toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { words } from "../../words/index.ts";

const CHECK_MS = 500;

interface Fault {
  line: number | undefined;
  message: string;
}

/** Whether the text of a resource is its prompt alone, and not JSON. */
const isText = (type: string, of: Content | undefined) => type === "prompts" && (of === undefined || isPlainPrompt(type, of.content));

/** What a text stands for; a fault where it is not JSON. */
function read(text: string, plain: boolean): { content?: unknown; fault?: Fault; lines?: ReadonlyMap<string, number> } {
  if (plain) return { content: { text } };
  const { fault, lines } = readPlaces(text);
  if (fault !== undefined) return { fault: { line: fault.line, message: builderWords.value.notJson(fault.message) } };
  return { content: JSON.parse(text), lines };
}

/** Checks a draft a moment after each change, without publishing it. */
function useCheck(text: string, plain: boolean, check: (content: unknown) => Promise<{ version: string; warnings?: string[] }>) {
  const [state, setState] = useState<{ fault?: Fault; version?: string; warnings?: string[] }>({});
  useEffect(() => {
    let isLate = false;
    const timer = setTimeout(() => void run(), CHECK_MS);
    async function run(): Promise<void> {
      const { content, fault, lines } = read(text, plain);
      if (fault !== undefined) return setState({ fault });
      try {
        const { version, warnings } = await check(content);
        if (!isLate) setState({ version, warnings });
      } catch (thrown) {
        if (!isLate) setState({ fault: faultOf(apiError(thrown), lines) });
      }
    }
    return () => {
      isLate = true;
      clearTimeout(timer);
    };
  }, [text]);
  return state;
}

function faultOf(error: ApiError, lines: ReadonlyMap<string, number> | undefined): Fault {
  const path = error.details["path"];
  return { line: lines === undefined || typeof path !== "string" ? undefined : lineOfPath(lines, path), message: words.value.fault(error.message) ?? error.message };
}

interface Props {
  of: Content;
  tenant: string | undefined;
  onPublished: () => void;
  onCancel: () => void;
}

/** Writes the next version of a resource. One that others have published meanwhile is shown beside it. */
export function ResourceEditor({ of, tenant, onPublished, onCancel }: Props): JSX.Element {
  const t = builderWords.value;
  const { type } = of.resource;
  const plain = isText(type, of);
  const [text, setText] = useState(() => readableContent(type, of.content));
  const [bump, setBump] = useState<"patch" | "minor" | "major">("patch");
  const [base, setBase] = useState(of);
  const [theirs, setTheirs] = useState<Content | undefined>(undefined);
  const path = withQuery(`/v1/resources/${encodeURIComponent(of.id)}`, { tenant });
  const put = (content: unknown, dryRun: boolean, digest: string) =>
    request<{ version: string; warnings?: string[] }>("PUT", path, { content, bump, dryRun }, dryRun ? {} : { "If-Match": `"${digest}"` });
  const checked = useCheck(text, plain, (content) => put(content, true, ""));

  async function publish(): Promise<void> {
    const { content, fault } = read(text, plain);
    if (fault !== undefined) throw new Error(fault.message);
    try {
      const { version } = await put(content, false, base.version.digest);
      toast(t.publishedAs(version));
      onPublished();
    } catch (thrown) {
      if (apiError(thrown).status !== 412) throw thrown;
      setTheirs(await request<Content>("GET", path));
    }
  }
  return (
    <Form submit={t.publish} onSubmit={publish} onCancel={onCancel} disabled={checked.fault !== undefined || theirs !== undefined}>
      <Editor text={text} setText={setText} checked={checked} />
      <Field label={t.bump}>
        {(control) => (
          <select {...control} value={bump} onChange={(event) => setBump(event.currentTarget.value as typeof bump)}>
            {(["patch", "minor", "major"] as const).map((each) => <option key={each} value={each}>{t.bumps[each]}</option>)}
          </select>
        )}
      </Field>
      {theirs !== undefined && (
        <Section title={t.theirs(theirs.version.version)}>
          <p class="problem" role="alert">{t.meanwhile}</p>
          <Diff label={t.theirs(theirs.version.version)} before={readableContent(type, theirs.content)} after={text} />
          <Button
            onClick={() => {
              setBase(theirs);
              setTheirs(undefined);
            }}
          >
            {t.publishAnyway}
          </Button>
        </Section>
      )}
    </Form>
  );
}

function Editor({ text, setText, checked }: { text: string; setText: (text: string) => void; checked: { fault?: Fault; version?: string; warnings?: string[] } }): JSX.Element {
  const t = builderWords.value;
  const [jump, setJump] = useState<number | undefined>(undefined);
  const { fault } = checked;
  return (
    <>
      <Field label={t.tabs.content} error={fault?.message} hint={checked.version === undefined ? undefined : t.checked(checked.version)}>
        {(control) => <CodeField control={control} value={text} onInput={setText} marked={fault?.line} jump={jump} />}
      </Field>
      {fault?.line !== undefined && <Button onClick={() => setJump((jump ?? 0) + 1)}>{t.onLine(fault.line)}</Button>}
      {(checked.warnings ?? []).map((warning) => <p key={warning} class="hint">{warning}</p>)}
    </>
  );
}

interface NewProps {
  type: string;
  copied: Content | undefined;
  tenant: string | undefined;
  onPublished: (id: string) => void;
  onCancel: () => void;
}

/** Writes the first version of a resource, or a copy of another. */
export function NewResourceEditor({ type, copied, tenant, onPublished, onCancel }: NewProps): JSX.Element {
  const t = builderWords.value;
  const plain = isText(type, copied);
  const [name, setName] = useState(copied?.resource.name ?? "");
  const [description, setDescription] = useState(copied?.resource.description ?? "");
  const [text, setText] = useState(() => (copied === undefined ? firstContent(type) : readableContent(type, copied.content)));
  const path = withQuery("/v1/resources", { tenant });
  const post = (content: unknown, dryRun: boolean) =>
    request<{ id: string; version: string; warnings?: string[] }>("POST", path, { type, name: name === "" && dryRun ? "draft-to-be-checked" : name, description: description || undefined, content, dryRun });
  const checked = useCheck(text, plain, (content) => post(content, true));
  return (
    <Form
      submit={t.publish}
      disabled={checked.fault !== undefined || name === ""}
      onCancel={onCancel}
      onSubmit={async () => {
        const { content, fault } = read(text, plain);
        if (fault !== undefined) throw new Error(fault.message);
        const { id, version } = await post(content, false);
        toast(t.publishedAs(version));
        onPublished(id);
      }}
    >
      <Field label={t.name}>{(control) => <input {...control} type="text" autocomplete="off" value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
      <Field label={t.description}>{(control) => <input {...control} type="text" dir="auto" autocomplete="off" value={description} onInput={(event) => setDescription(event.currentTarget.value)} />}</Field>
      <Editor text={text} setText={setText} checked={checked} />
    </Form>
  );
}
