import type { JSX } from "preact";
import type { PageProps } from "../../routes.ts";
import { useData, withQuery } from "../../state/data.ts";
import { type ConfigView, groupOf, isChanged, type Setting, shown } from "../../state/settings.ts";
import "../../style/activity.css";
import { Page } from "../../ui/page.tsx";
import { Prose, Section } from "../../ui/parts.tsx";
import { Empty, Shown } from "../../ui/shown.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { language, words } from "../../words/index.ts";
import { bytes, stamp } from "../../words/measure.ts";
import { settingDoc } from "../../words/settings/docs.ts";
import { settingsWords } from "../../words/settings/index.ts";

/** Every setting with its value and where that comes from. */
export default function SettingList({ query, go }: PageProps): JSX.Element {
  const { tenant, q = "", only } = query;
  const text = settingsWords.value;
  const config = useData<ConfigView>(withQuery("/v1/config", { view: "full", tenant }));
  const here = (more: Record<string, string | undefined>) => withQuery("/settings", { tenant, q, only, ...more });
  return (
    <Page
      title={words.value.pages.settings}
      tools={
        <>
          {config.data !== undefined && <a class="chip" href={withQuery("/settings/history", { tenant })}>{text.revision(config.data.revision)}</a>}
          <TenantChoice whole={text.ofServer} go={go} />
        </>
      }
    >
      <div class="filters">
        <form
          role="search"
          onSubmit={(event) => {
            event.preventDefault();
            go(here({ q: String(new FormData(event.currentTarget).get("q")).trim() || undefined }));
          }}
        >
          <input type="search" name="q" key={q} defaultValue={q} aria-label={text.search} placeholder={text.search} />
        </form>
        <nav class="segments" aria-label={text.changed}>
          <a href={here({ only: undefined })} aria-current={only === undefined ? "true" : undefined}>{text.allSettings}</a>
          <a href={here({ only: "changed" })} aria-current={only === "changed" ? "true" : undefined}>{text.changedOnly}</a>
        </nav>
      </div>
      <Shown of={config}>{(view) => <Groups view={view} q={q} only={only} tenant={tenant} clear={withQuery("/settings", { tenant })} />}</Shown>
    </Page>
  );
}

function Groups({ view, q, only, tenant, clear }: { view: ConfigView; q: string; only: string | undefined; tenant: string | undefined; clear: string }): JSX.Element {
  const text = settingsWords.value;
  const sought = q.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = view.settings.filter((setting) => {
    if (only === "changed" && !isChanged(setting)) return false;
    const about = `${setting.key} ${setting.doc} ${settingDoc(setting.key, setting.doc)} ${shown(setting.effective)}`.toLowerCase();
    return sought.every((word) => about.includes(word));
  });
  const groups = new Set(rows.map(({ key }) => groupOf(key)));
  const pending = view.pendingRestart ?? [];
  return (
    <>
      {pending.length > 0 && <p class="warn" role="status">{text.pendingRestart(pending.length)}{words.value.colon}{pending.map((key) => <a key={key} href={`/settings/${key}`}><code>{key}</code> </a>)}</p>}
      {rows.length === 0 && <Empty action={<a class="btn" href={clear}>{text.allSettings}</a>}>{sought.length === 0 ? text.changedNothing : text.notMatching}</Empty>}
      {[...groups].map((group) => (
        <Section key={group} title={group}>
          <ul class="settings">{rows.filter(({ key }) => groupOf(key) === group).map((setting) => <Row key={setting.key} setting={setting} tenant={tenant} />)}</ul>
        </Section>
      ))}
    </>
  );
}

function Row({ setting, tenant }: { setting: Setting; tenant: string | undefined }): JSX.Element {
  const text = settingsWords.value;
  return (
    <li>
      <span class="setting-name">
        <a href={withQuery(`/settings/${encodeURIComponent(setting.key)}`, { tenant })}><code>{setting.key}</code></a>
        <span class="hint"><Prose text={settingDoc(setting.key, setting.doc)} /></span>
      </span>
      <code class="setting-value" dir="auto">{setting.effective === undefined ? <span class="hint">{text.nothingSet}</span> : shown(setting.effective)}{sizeOf(setting)}</code>
      <Provenance source={setting.source} setting={setting} />
      <span class="setting-marks">
        {setting.applies !== "live" && <span class="chip">{text.restart}</span>}
        {setting.restartPending && <span class="chip warn">{text.restartPending}</span>}
      </span>
    </li>
  );
}

/** A count of bytes, as one reads it. */
const sizeOf = ({ key, effective }: Setting) => (/bytes$/i.test(key) && typeof effective === "number" ? <span class="hint"> {bytes(effective)}</span> : null);

/** The layer, the place in it, who set it and when. */
function Provenance({ source, setting }: { source: string; setting: Setting }): JSX.Element {
  const text = settingsWords.value;
  const isOwn = source === setting.layer;
  return (
    <span class="setting-source">
      {source !== "unset" && (text.layers[source] ?? source)}
      {isOwn && setting.place !== undefined && <span class="hint"> {text.placeOf(setting.place)}</span>}
      {isOwn && setting.actor !== undefined && <span class="hint" dir="auto"> · {setting.actor}</span>}
      {isOwn && setting.at !== undefined && <time class="hint"> · {stamp(setting.at, language.value)}</time>}
    </span>
  );
}
