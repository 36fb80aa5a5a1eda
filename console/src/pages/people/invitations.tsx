import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { InvitationView as Invitation } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import { identity } from "../../link/who.ts";
import type { PageProps } from "../../routes.ts";
import { useList, withQuery } from "../../state/data.ts";
import "../../style/people.css";
import { Button } from "../../ui/button.tsx";
import { Page } from "../../ui/page.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { attempt } from "../../ui/toast.tsx";
import { moment } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";
import { Invite } from "./invite.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";

/** The links that make users. */
export default function Invitations({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const invitations = useList<Invitation>(withQuery("/v1/invitations", { tenant }));
  const [isOpen, setOpen] = useState(false);
  const text = peopleWords.value;
  const isOver = (one: Invitation) => one.acceptedAt !== undefined || one.revokedAt !== undefined || one.expiresAt <= Date.now();
  const stateOf = (one: Invitation) => {
    if (one.acceptedAt !== undefined) return one.userId === undefined ? text.acceptedBy : <a href={withQuery(`/people/${one.userId}`, { tenant })}>{text.acceptedBy}</a>;
    return one.revokedAt !== undefined ? text.revoked : one.expiresAt <= Date.now() ? text.expired : text.waits;
  };
  const revoke = (one: Invitation) => attempt(request("DELETE", withQuery(`/v1/invitations/${one.invitationId}`, { tenant })).then(invitations.reload));
  return (
    <Page
      title={words.value.pages.invitations}
      tools={
        <>
          <TenantChoice whole={identity.value?.tenant ?? ""} go={go} />
          <Button primary onClick={() => setOpen(true)}>{text.invite}</Button>
        </>
      }
    >
      <Shown of={invitations}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty>{text.noInvitations}</Empty>
          ) : (
            <Table
              label={words.value.pages.invitations}
              rows={rows}
              keyOf={({ invitationId }) => invitationId}
              columns={[
                { head: text.name, cell: ({ displayName, externalId }) => <bdi>{displayName ?? externalId ?? "—"}</bdi> },
                { head: text.role, cell: ({ role }) => text.roles[role] },
                { head: text.created, cell: ({ createdAt }) => <time>{moment(createdAt, language.value)}</time> },
                { head: text.endsAt, cell: ({ expiresAt }) => <time>{moment(expiresAt, language.value)}</time> },
                { head: text.status, cell: stateOf },
                { head: text.actions, cell: (one) => (isOver(one) ? null : <span class="row-tools"><Button onClick={() => revoke(one)}>{text.revoke}</Button></span>) },
              ]}
            />
          )
        }
      </Shown>
      <More more={invitations.more} />
      {isOpen && <Invite tenant={tenant} onClose={() => setOpen(false)} onMade={() => void invitations.reload()} />}
    </Page>
  );
}
