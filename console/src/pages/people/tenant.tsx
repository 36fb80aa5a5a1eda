import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import type { PageProps } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import "../../style/people.css";
import { Button } from "../../ui/button.tsx";
import { Confirm, Field, Form } from "../../ui/form.tsx";
import { Money } from "../../ui/money.tsx";
import { Page } from "../../ui/page.tsx";
import { Figures, Section } from "../../ui/parts.tsx";
import type { Quota } from "../../ui/quota_bar.tsx";
import { Shown } from "../../ui/shown.tsx";
import { attempt, toast } from "../../ui/toast.tsx";
import { words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";
import { UsagePlot } from "../money/usage_plot.tsx";
import type { Wallet } from "../money/wallet.tsx";
import { Delete } from "./person.tsx";
import { QuotaTable } from "./quota_table.tsx";
import type { Tenant } from "./tenants.tsx";

/** One tenant, for the operator. */
export default function OneTenant({ params, go }: PageProps): JSX.Element {
  const slug = params["tenant"] ?? "";
  const path = `/v1/tenants/${encodeURIComponent(slug)}`;
  const tenant = useData<Tenant>(path);
  const wallet = useData<Wallet>(withQuery("/v1/wallet", { tenant: slug }));
  const quotas = useList<Quota>(withQuery("/v1/quotas", { tenant: slug }));
  const [dialog, setDialog] = useState<"suspend" | "delete" | undefined>(undefined);
  const text = peopleWords.value;
  const { pages } = words.value;
  const isDefault = tenant.data?.tenantId === "default";
  const links = [["/people", pages.people], ["/people/keys", pages.keys], ["/people/quotas", pages.quotas], ["/people/audit", pages.audit], ["/usage", pages.usage], ["/wallet", pages.wallet], ["/settings", pages.settings]] as const;
  return (
    <Shown of={tenant}>
      {(one) => (
        <Page
          title={one.name}
          tools={
            isDefault ? undefined : (
              <>
                {one.status === "active" ? (
                  <Button onClick={() => setDialog("suspend")}>{text.suspend}</Button>
                ) : (
                  <Button primary onClick={() => attempt(request("PUT", path, { status: "active" }).then(tenant.reload))}>{text.resume}</Button>
                )}
                <Button onClick={() => setDialog("delete")}>{text.deleteTenant}</Button>
              </>
            )
          }
        >
          <p>
            <code>{one.slug}</code> · <span class={one.status === "active" ? undefined : "warn"}>{text.statuses[one.status]}</span>
            {one.plan !== undefined && <> · {text.plan}{words.value.colon}<bdi>{one.plan}</bdi></>}
          </p>
          <nav class="tabs" aria-label={text.tenantPages}>
            {links.map(([start, name]) => <a key={start} href={withQuery(start, { tenant: one.slug })}>{name}</a>)}
          </nav>
          {wallet.data !== undefined && (
            <Figures of={[[text.balance, <Money key="b" nano={wallet.data.balance} />], [text.credited, <Money key="c" nano={wallet.data.credited} />], [text.spent, <Money key="s" nano={wallet.data.spent} />]]} />
          )}
          <UsagePlot title={pages.usage} tenant={slug} by="model" span="30d" />
          <Section title={text.limits}>
            <Shown of={quotas}>{(rows) => <QuotaTable quotas={rows.filter(({ userId, eachUser }) => userId === undefined && !eachUser)} tenant={slug} onChanged={quotas.reload} />}</Shown>
          </Section>
          <Section title={pages.settings}>
            <About key={one.tenantId} tenant={one} onSaved={tenant.reload} path={path} />
          </Section>
          {dialog === "suspend" && (
            <Confirm title={`${text.suspend}${words.value.colon}${one.name}`} submit={text.suspend} typed={one.slug} onConfirm={() => request("PUT", path, { status: "suspended" }).then(tenant.reload)} onClose={() => setDialog(undefined)}>
              <p>{text.suspendHint}</p>
            </Confirm>
          )}
          {dialog === "delete" && <Delete path={path} name={one.slug} title={text.deleteTenant} onClose={() => setDialog(undefined)} onDeleted={() => go("/tenants")} />}
        </Page>
      )}
    </Shown>
  );
}

function About({ tenant, path, onSaved }: { tenant: Tenant; path: string; onSaved: () => Promise<void> }): JSX.Element {
  const [name, setName] = useState(tenant.name);
  const [description, setDescription] = useState(tenant.description ?? "");
  const text = peopleWords.value;
  async function save(): Promise<void> {
    await request("PUT", path, { name, description: description === "" ? null : description });
    await onSaved();
    toast(text.save);
  }
  return (
    <Form submit={text.save} onSubmit={save}>
      <Field label={text.name}>
        {(control) => <input {...control} type="text" required maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} />}
      </Field>
      <Field label={text.description}>
        {(control) => <input {...control} type="text" maxLength={2000} value={description} onInput={(event) => setDescription(event.currentTarget.value)} />}
      </Field>
    </Form>
  );
}
