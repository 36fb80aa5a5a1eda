import type { VersionsView as VersionList } from "../../link/client.ts";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { identity } from "../../link/who.ts";
import { may, type PageProps } from "../../routes.ts";
import { type Content, descriptionOf, readableContent, resourcePage } from "../../state/builder.ts";
import { useData, withQuery } from "../../state/data.ts";
import "../../style/builder.css";
import { Button } from "../../ui/button.tsx";
import { Confirm } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Shown } from "../../ui/shown.tsx";
import { toast } from "../../ui/toast.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { when } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { Compare } from "./compare.tsx";
import { Rendering } from "./rendering.tsx";
import { ResourceDetails } from "./resource_details.tsx";
import { ResourceEditor } from "./resource_editor.tsx";
import { TryTool } from "./try_tool.tsx";
import { Used } from "./used.tsx";
import { Versions } from "./versions.tsx";

export type { VersionList };

type Tab = "content" | "rendered" | "compare" | "versions" | "used" | "try";

/** One resource: its content, its versions, what it refers to and who refers to it. */
export default function ResourcePage({ params, query, go }: PageProps): JSX.Element {
  const { tenant, v } = query;
  const t = builderWords.value;
  const id = params["id"] ?? "";
  const api = (rest = "", more: Record<string, string | undefined> = {}) => withQuery(`/v1/resources/${encodeURIComponent(id)}${rest}`, { tenant, ...more });
  const shown = useData<Content>(api("", { version: v }));
  const versions = useData<VersionList>(api("/versions"));
  const [isDeleting, setDeleting] = useState(false);
  const [force, setForce] = useState(false);
  const resource = shown.data?.resource;
  const isOwn = resource !== undefined && resource.owner === (tenant ?? identity.value?.tenant);
  const mayWrite = may("resources:write") && isOwn;
  const isTool = resource?.type === "tools";
  const tab = (query["tab"] ?? (query["with"] === undefined ? "content" : "compare")) as Tab;
  const here = (more: Record<string, string | undefined>) => resourcePage(id, { tenant, v, ...more });
  const tabs: Tab[] = ["content", "rendered", "compare", "versions", "used", ...(isTool && may("tools:invoke") ? (["try"] as const) : [])];
  const strip = useRef<HTMLElement>(null);
  useEffect(() => strip.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [tab, shown.data === undefined, versions.data === undefined, words.value]);
  function reload(): void {
    void shown.reload();
    void versions.reload();
  }
  const tools = shown.data !== undefined && (
    <div class="bars">
      {resource?.type === "skills" && <a class="btn" href={withQuery(`/skills/${encodeURIComponent(id)}`, { tenant })}>{words.value.pages.skill}</a>}
      {resource?.type === "knowledge" && <a class="btn" href={withQuery(`/knowledge/${encodeURIComponent(id)}`, { tenant })}>{t.knowledgeDocuments}</a>}
      {mayWrite && query["edit"] === undefined && <a class="btn btn-ink" href={here({ edit: "1", tab: undefined, with: undefined, v: undefined })}>{t.editContent}</a>}
      {may("resources:write") && <a class="btn" href={withQuery("/resources/new", { tenant, copy: id })}>{t.copyResource}</a>}
      <a class="btn" href={api("/export", { version: v })} download={`${shown.data.resource.type}-${shown.data.resource.name}.tar.gz`}>{t.export}</a>
      {mayWrite && <Button onClick={() => setDeleting(true)}>{t.deleteResource}</Button>}
    </div>
  );
  return (
    <Page title={resource?.name ?? words.value.pages.resource} tools={tools}>
      <Shown of={shown}>
        {(content) => (
          <>
            <p class="sub">
              <code>{content.uri}</code> · {t.types[content.resource.type] ?? content.resource.type} · {content.resource.visibility === "public" ? t.public : t.private} · {t.versionOf(content.version.version)}
              {content.version.yankedAt !== undefined && <span class="problem"> {t.yanked}</span>} · {when(content.version.createdAt, language.value, Date.now())}
            </p>
            {content.resource.description !== undefined && <p dir="auto">{descriptionOf(content.resource, language.value)}</p>}
            {content.resource.deprecated !== undefined && <p class="problem" dir="auto">{t.deprecated}{words.value.colon}{content.resource.deprecated}</p>}
            {may("resources:write") && !isOwn && <p class="hint">{t.notYours}</p>}
            {query["edit"] !== undefined && mayWrite ? (
              <>
                <ResourceEditor
                  key={content.version.digest}
                  of={content}
                  tenant={tenant}
                  onPublished={() => {
                    reload();
                    go(resourcePage(id, { tenant }));
                  }}
                  onCancel={() => go(resourcePage(id, { tenant }))}
                />
                <ResourceDetails key={content.resource.updatedAt} of={content} tenant={tenant} onSaved={reload} />
              </>
            ) : (
              <>
                <nav ref={strip} class="tabs resource-tabs" aria-label={content.resource.name}>
                  {tabs.map((name) => (
                    <a key={name} href={here({ tab: name === "content" ? undefined : name, with: undefined, edit: undefined })} aria-current={name === tab ? "page" : undefined}>
                      {t.tabs[name]}{name === "versions" && versions.data !== undefined && ` ${versions.data.items.length}`}
                    </a>
                  ))}
                </nav>
                {tab === "content" && <pre class="paper" dir="auto">{readableContent(content.resource.type, content.content)}</pre>}
                {tab === "rendered" && <Rendering of={content} tenant={tenant} />}
                {tab === "compare" && <Shown of={versions}>{(list) => <Compare id={id} type={content.resource.type} versions={list} query={query} go={go} />}</Shown>}
                {tab === "versions" && <Shown of={versions}>{(list) => <Versions id={id} list={list} tenant={tenant} mayWrite={mayWrite} onChange={reload} />}</Shown>}
                {tab === "used" && <Used id={id} version={v} tenant={tenant} />}
                {tab === "try" && isTool && <TryTool of={content} tenant={tenant} />}
              </>
            )}
            {isDeleting && (
              <Confirm
                title={`${t.deleteResource}${words.value.colon}${content.resource.name}`}
                submit={t.deleteResource}
                typed={content.resource.name}
                onConfirm={() => request("DELETE", api("", { force: force ? "true" : undefined })).then(() => (toast(t.removed), go(withQuery("/resources", { tenant }))))}
                onClose={() => setDeleting(false)}
              >
                <p>{t.deleteAbout}</p>
                {may("tenants:admin") && (
                  <label class="check"><input type="checkbox" checked={force} onChange={(event) => setForce(event.currentTarget.checked)} /> {t.force}</label>
                )}
              </Confirm>
            )}
          </>
        )}
      </Shown>
    </Page>
  );
}
