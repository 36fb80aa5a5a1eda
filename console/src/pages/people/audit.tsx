import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { AuditView as Entry } from "../../link/client.ts";
import { identity } from "../../link/who.ts";
import { may, type PageProps } from "../../routes.ts";
import { useList, withQuery } from "../../state/data.ts";
import "../../style/people.css";
import { Field } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { moment } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";
import { useActorNames } from "./people.ts";
import { TenantChoice } from "../../ui/tenant.tsx";

/** Who did what. */
export default function Audit({ query, go }: PageProps): JSX.Element {
  const { tenant, action } = query;
  const entries = useList<Entry>(withQuery("/v1/audit", { tenant, action }));
  const name = useActorNames(tenant);
  const [written, setWritten] = useState(action ?? "");
  const text = peopleWords.value;
  return (
    <Page title={words.value.pages.audit} tools={<TenantChoice whole={identity.value?.tenant ?? ""} go={go} />}>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          go(withQuery("/people/audit", { tenant, action: written.trim() }));
        }}
      >
        <Field label={text.action}>
          {(control) => <input {...control} type="search" value={written} placeholder="key.create" onInput={(event) => setWritten(event.currentTarget.value)} />}
        </Field>
      </form>
      <Shown of={entries}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty>{text.noAudit}</Empty>
          ) : (
            <Table
              label={words.value.pages.audit}
              rows={rows}
              keyOf={({ number }) => String(number)}
              columns={[
                { head: text.time, cell: ({ at }) => <time>{moment(at, language.value)}</time> },
                { head: text.actor, cell: ({ actor }) => <bdi title={actor}>{name(actor)}</bdi> },
                { head: text.action, cell: (entry) => <a href={withQuery("/people/audit", { tenant, action: entry.action })}><code>{entry.action}</code></a> },
                { head: text.target, cell: ({ target }) => <bdi>{name(target)}</bdi> },
                { head: text.result, cell: ({ result }) => <span class={result === "ok" ? "" : "warn"}>{result}</span> },
                { head: text.addressOf, cell: ({ address }) => address ?? "" },
                ...(may("logs:read") ? [{ head: text.request, cell: ({ requestId }: Entry) => (requestId === undefined ? null : <a href={withQuery("/activity/logs", { request: requestId })}>{words.value.showInLogs}</a>) }] : []),
              ]}
            />
          )
        }
      </Shown>
      <More more={entries.more} />
    </Page>
  );
}
