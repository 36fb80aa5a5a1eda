import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { TenantView as Tenant } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import type { PageProps } from "../../routes.ts";
import { useList } from "../../state/data.ts";
import "../../style/people.css";
import { Button } from "../../ui/button.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Page } from "../../ui/page.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { NOTHING, Table } from "../../ui/table.tsx";
import { moment } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";

export type { Tenant };

/** The tenants of the server, for its operator. */
export default function Tenants({ go }: PageProps): JSX.Element {
  const tenants = useList<Tenant>("/v1/tenants");
  const [isOpen, setOpen] = useState(false);
  const text = peopleWords.value;
  return (
    <Page title={words.value.pages.tenants} tools={<Button primary onClick={() => setOpen(true)}>{text.newTenant}</Button>}>
      <Shown of={tenants}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty>{text.noTenants}</Empty>
          ) : (
            <Table
              label={words.value.pages.tenants}
              rows={rows}
              keyOf={({ tenantId }) => tenantId}
              columns={[
                { head: text.name, cell: ({ slug, name }) => <a href={`/tenants/${slug}`}><bdi>{name}</bdi></a> },
                { head: text.slug, cell: ({ slug }) => <code>{slug}</code> },
                { head: text.status, cell: ({ status }) => <span class={status === "active" ? "" : "warn"}>{text.statuses[status]}</span> },
                { head: text.plan, cell: ({ plan }) => plan ?? NOTHING },
                { head: text.created, cell: ({ createdAt }) => <time>{moment(createdAt, language.value)}</time> },
              ]}
            />
          )
        }
      </Shown>
      <More more={tenants.more} />
      {isOpen && <NewTenant onClose={() => setOpen(false)} onMade={({ slug }) => go(`/tenants/${slug}`)} />}
    </Page>
  );
}

function NewTenant({ onClose, onMade }: { onClose: () => void; onMade: (tenant: Tenant) => void }): JSX.Element {
  const [slug, setSlug] = useState("");
  const [name, setName] = useState("");
  const text = peopleWords.value;
  return (
    <Modal label={text.newTenant} onClose={onClose}>
      {(close) => (
        <>
          <h2>{text.newTenant}</h2>
          <Form submit={text.newTenant} onCancel={close} onSubmit={async () => onMade(await request<Tenant>("POST", "/v1/tenants", { slug, name }))}>
            <Field label={text.name}>
              {(control) => <input {...control} type="text" required maxLength={200} autocomplete="off" value={name} onInput={(event) => setName(event.currentTarget.value)} />}
            </Field>
            <Field label={text.slug} hint={text.slugHint}>
              {(control) => <input {...control} type="text" required maxLength={63} autocomplete="off" value={slug} onInput={(event) => setSlug(event.currentTarget.value)} />}
            </Field>
          </Form>
        </>
      )}
    </Modal>
  );
}
