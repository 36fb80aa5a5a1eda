import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { identity } from "../../link/who.ts";
import type { PageProps } from "../../routes.ts";
import { useList, withQuery } from "../../state/data.ts";
import "../../style/people.css";
import { Button } from "../../ui/button.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Page } from "../../ui/page.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { moment } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";
import { Invite } from "./invite.tsx";
import { nameOf, type Role, type User } from "./people.ts";
import { RoleField } from "./role_field.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";

/** The users of a tenant. */
export default function People({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const users = useList<User>(withQuery("/v1/users", { tenant }));
  const [dialog, setDialog] = useState<"invite" | "add" | undefined>(undefined);
  const text = peopleWords.value;
  return (
    <Page
      title={words.value.pages.people}
      tools={
        <>
          <TenantChoice whole={identity.value?.tenant ?? ""} go={go} />
          <Button onClick={() => setDialog("add")}>{text.newUser}</Button>
          <Button primary onClick={() => setDialog("invite")}>{text.invite}</Button>
        </>
      }
    >
      <Shown of={users}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty>{text.noPeople}</Empty>
          ) : (
            <Table
              label={words.value.pages.people}
              rows={rows}
              keyOf={({ userId }) => userId}
              columns={[
                { head: text.name, cell: (user) => <a href={withQuery(`/people/${user.userId}`, { tenant })}><bdi>{nameOf(user)}</bdi></a> },
                { head: text.externalId, cell: ({ externalId }) => <code dir="auto">{externalId}</code> },
                { head: text.role, cell: ({ role }) => text.roles[role] },
                { head: text.status, cell: ({ status }) => <span class={status === "active" ? "" : "warn"}>{text.statuses[status]}</span> },
                { head: text.created, cell: ({ createdAt }) => <time>{moment(createdAt, language.value)}</time> },
              ]}
            />
          )
        }
      </Shown>
      <More more={users.more} />
      {dialog === "invite" && <Invite tenant={tenant} onClose={() => setDialog(undefined)} />}
      {dialog === "add" && <NewUser tenant={tenant} onClose={() => setDialog(undefined)} onAdded={(user) => go(withQuery(`/people/${user.userId}`, { tenant }))} />}
    </Page>
  );
}

function NewUser({ tenant, onClose, onAdded }: { tenant: string | undefined; onClose: () => void; onAdded: (user: User) => void }): JSX.Element {
  const [externalId, setExternalId] = useState("");
  const [displayName, setDisplayName] = useState("");
  const [role, setRole] = useState<Role>("member");
  const text = peopleWords.value;
  return (
    <Modal label={text.newUser} onClose={onClose}>
      {(close) => (
        <>
          <h2>{text.newUser}</h2>
          <Form
            submit={text.add}
            onCancel={close}
            onSubmit={async () => onAdded(await request<User>("POST", withQuery("/v1/users", { tenant }), { externalId, role, ...(displayName === "" ? {} : { displayName }) }))}
          >
            <Field label={text.externalId} hint={text.externalIdHint}>
              {(control) => <input {...control} type="text" required maxLength={200} autocomplete="off" value={externalId} onInput={(event) => setExternalId(event.currentTarget.value)} />}
            </Field>
            <Field label={text.displayName}>
              {(control) => <input {...control} type="text" maxLength={200} autocomplete="off" value={displayName} onInput={(event) => setDisplayName(event.currentTarget.value)} />}
            </Field>
            <RoleField role={role} onChange={setRole} />
          </Form>
        </>
      )}
    </Modal>
  );
}
