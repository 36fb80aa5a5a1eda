import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, request } from "../../link/http.ts";
import { may, type PageProps } from "../../routes.ts";
import { useData, withQuery } from "../../state/data.ts";
import { type Changed, type ConfigView, type Kind, kindOf, type Outcome, type Setting, shown, typed, valueOf } from "../../state/settings.ts";
import "../../style/activity.css";
import { Field, Form } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Prose, Section } from "../../ui/parts.tsx";
import { Shown } from "../../ui/shown.tsx";
import { NOTHING, Table } from "../../ui/table.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { toast } from "../../ui/toast.tsx";
import { gap, language, words } from "../../words/index.ts";
import { stamp } from "../../words/measure.ts";
import { settingDoc } from "../../words/settings/docs.ts";
import { settingsWords } from "../../words/settings/index.ts";
import { useActorNames } from "../people/people.ts";
import { ChangedTable, Preview } from "./changes.tsx";

/** One setting: what counts, where it comes from, and how it is changed. */
export default function SettingPage({ params, query, go }: PageProps): JSX.Element {
  const key = params["key"] ?? "";
  const { tenant } = query;
  const text = settingsWords.value;
  const path = withQuery(`/v1/config/${encodeURIComponent(key)}`, { tenant });
  const setting = useData<Setting>(path);
  // The revision that this page has seen: a newer one is somebody else's.
  const config = useData<Pick<ConfigView, "revision">>(withQuery("/v1/config", { tenant }));
  return (
    <Page title={key} tools={<TenantChoice whole={text.ofServer} go={go} />}>
      <p><a href={withQuery("/settings", { tenant, q: key.split(".")[0] })}>← {words.value.pages.settings}</a></p>
      <Shown of={setting}>
        {(one) => (
          <>
            <p><Prose text={settingDoc(one.key, one.doc)} /></p>
            <p class="hint">{text.applies[one.applies]}{gap.value}{text.tenantMay[one.tenant]}</p>
            <Sources setting={one} tenant={tenant} />
            {one.applies === "boot" ? (
              <p class="hint">{text.notChangeable}</p>
            ) : (
              may("config:write") && config.data !== undefined && (
                <Editor
                  key={`${key} ${tenant ?? ""}`}
                  setting={one}
                  path={path}
                  tenant={tenant}
                  seen={config.data.revision}
                  onSaved={async (outcome) => {
                    toast(outcome.restartRequired.length > 0 ? text.savedRestart : text.saved);
                    await Promise.all([setting.reload(), config.reload()]);
                  }}
                />
              )
            )}
          </>
        )}
      </Shown>
    </Page>
  );
}

function Sources({ setting, tenant }: { setting: Setting; tenant: string | undefined }): JSX.Element {
  const text = settingsWords.value;
  const name = useActorNames(tenant);
  return (
    <>
      <p class="effective">
        <span class="hint">{text.effective}</span> <code dir="auto">{setting.effective === undefined ? text.nothingSet : shown(setting.effective)}</code>
        {setting.restartPending && <span class="chip warn">{text.restartPending}</span>}
      </p>
      {language.value === "en" && <p class="hint" dir="auto">{setting.why}</p>}
      <Section title={text.layersTitle}>
        <Table
          label={text.layersTitle}
          rows={setting.layers ?? []}
          keyOf={({ layer, place }) => `${layer} ${place ?? ""}`}
          columns={[
            { head: text.layer, cell: ({ layer }) => text.layers[layer] ?? layer },
            { head: text.value, cell: ({ value }) => <code dir="auto">{shown(value)}</code> },
            { head: text.place, cell: ({ place, layer }) => (place === undefined ? undefined : text.placeOf(place)) ?? (layer === "environment" ? setting.variable : undefined) ?? NOTHING },
            { head: text.actor, cell: ({ actor }) => (actor === undefined ? NOTHING : <span dir="auto" title={actor}>{name(actor)}</span>) },
            { head: text.time, cell: ({ at }) => (at === undefined ? NOTHING : <time>{stamp(at, language.value)}</time>) },
          ]}
        />
        <p class="hint">{text.layersHint}{gap.value}{setting.variable !== undefined && <>{text.variable} <code>{setting.variable}</code></>}</p>
      </Section>
    </>
  );
}

interface EditorProps {
  setting: Setting;
  path: string;
  tenant: string | undefined;
  seen: number;
  onSaved: (outcome: Outcome) => Promise<void>;
}

/** Edit, look at what would change, save with a note. What was typed stays when somebody else was faster. */
function Editor({ setting, path, tenant, seen, onSaved }: EditorProps): JSX.Element {
  const text = settingsWords.value;
  const kind = kindOf(setting);
  const current = setting.secret ? "" : typed(setting.value ?? setting.effective, kind);
  const [value, setValue] = useState(current);
  const [note, setNote] = useState("");
  const [isRemoved, setRemoved] = useState(false);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const [preview, setPreview] = useState<Outcome | undefined>(undefined);
  const [revision, setRevision] = useState(seen);
  const [others, setOthers] = useState<Changed[] | undefined>(undefined);
  useEffect(() => setPreview(undefined), [value, isRemoved]);

  async function change(next: unknown, dryRun: boolean): Promise<void> {
    setProblem(undefined);
    try {
      const outcome = await request<Outcome>("PUT", path, { value: next, revision, dryRun, ...(note.trim() === "" ? {} : { note: note.trim() }) });
      if (dryRun) {
        setPreview(outcome);
        return;
      }
      setPreview(undefined);
      setOthers(undefined);
      setRemoved(false);
      setRevision(outcome.revision);
      setNote("");
      await onSaved(outcome);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 412) throw error;
      const diff = await request<{ to: number; changed: Changed[] }>("GET", withQuery("/v1/config/diff", { from: revision, tenant }));
      setPreview(undefined);
      setOthers(diff.changed);
      setRevision(diff.to);
    }
  }
  async function submit(): Promise<void> {
    let next: unknown = null;
    try {
      if (!isRemoved) next = valueOf(value, kind);
    } catch {
      setProblem(text.invalidJson);
      return;
    }
    await change(next, preview === undefined);
  }
  const ownLayer = tenant === undefined ? "override" : "tenant";
  const below = setting.secret ? undefined : (setting.layers ?? []).findLast(({ layer }) => layer !== ownLayer)?.value;
  return (
    <Section title={text.newValue}>
      <Form submit={preview === undefined ? text.dryRun : text.save} disabled={preview?.changed.length === 0} onSubmit={submit}>
        <Field label={text.value} hint={setting.secret ? text.secretHidden : text.expected(setting.type)} error={problem}>
          {(control) => <ValueInput control={{ ...control, disabled: isRemoved }} kind={kind} isSecret={setting.secret ?? false} value={value} onInput={setValue} />}
        </Field>
        {(setting.layers ?? []).some(({ layer }) => layer === ownLayer) && (
          <div>
            <label class="check">
              <input type="checkbox" checked={isRemoved} onChange={(event) => setRemoved(event.currentTarget.checked)} /> {text.dropOverride}
            </label>
            <p class="hint">{text.dropOverrideHint}</p>
          </div>
        )}
        <Field label={text.note} hint={text.noteHint}>
          {(control) => <input {...control} type="text" maxLength={2_000} value={note} onInput={(event) => setNote(event.currentTarget.value)} />}
        </Field>
        {others !== undefined && (
          <div class="conflict" role="alert">
            <p class="warn">{text.changedElsewhere}</p>
            <ChangedTable label={text.changed} rows={others} />
          </div>
        )}
        {preview !== undefined && <Preview outcome={preview} unset={below} />}
      </Form>
    </Section>
  );
}

interface InputProps {
  control: { id: string; disabled: boolean };
  kind: Kind;
  isSecret: boolean;
  value: string;
  onInput: (value: string) => void;
}

function ValueInput({ control, kind, isSecret, value, onInput }: InputProps): JSX.Element {
  if (kind.kind === "choice") {
    return (
      <select {...control} value={value} onChange={(event) => onInput(event.currentTarget.value)}>
        {!kind.options.includes(value) && <option value={value}>{value}</option>}
        {kind.options.map((option) => <option key={option} value={option}>{option}</option>)}
      </select>
    );
  }
  if (kind.kind === "json") return <textarea {...control} class="code-input" dir="ltr" rows={6} spellcheck={false} value={value} onInput={(event) => onInput(event.currentTarget.value)} />;
  const input = (event: { currentTarget: HTMLInputElement }) => onInput(event.currentTarget.value);
  if (isSecret) return <input {...control} type="password" autocomplete="new-password" value={value} onInput={input} />;
  return <input {...control} type="text" inputMode={kind.kind === "number" ? "decimal" : undefined} autocomplete="off" value={value} onInput={input} />;
}
