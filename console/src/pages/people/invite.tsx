import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { withQuery } from "../../state/data.ts";
import { Field, Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Copyable } from "../../ui/parts.tsx";
import { words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";
import type { Role } from "./people.ts";
import { RoleField } from "./role_field.tsx";

const DAYS = [1, 7, 30] as const;

/** Makes an invitation, and shows its link once. */
export function Invite({ tenant, onClose, onMade }: { tenant: string | undefined; onClose: () => void; onMade?: () => void }): JSX.Element {
  const [role, setRole] = useState<Role>("member");
  const [displayName, setDisplayName] = useState("");
  const [days, setDays] = useState(7);
  const [link, setLink] = useState("");
  const text = peopleWords.value;
  async function create(): Promise<void> {
    const made = await request<{ link: string }>("POST", withQuery("/v1/invitations", { tenant }), { role, days, ...(displayName === "" ? {} : { displayName }) });
    setLink(location.origin + made.link);
    onMade?.();
  }
  return (
    <Modal label={text.invite} onClose={onClose}>
      {(close) => (
        <>
          <h2>{text.invite}</h2>
          {link === "" ? (
            <Form submit={text.invite} onSubmit={create} onCancel={close}>
              <Field label={text.displayName}>
                {(control) => <input {...control} type="text" maxLength={200} autocomplete="off" value={displayName} onInput={(event) => setDisplayName(event.currentTarget.value)} />}
              </Field>
              <RoleField role={role} onChange={setRole} />
              <Field label={text.expires}>
                {(control) => (
                  <select {...control} value={days} onChange={(event) => setDays(Number(event.currentTarget.value))}>
                    {DAYS.map((count) => <option key={count} value={count}>{text.days(count)}</option>)}
                  </select>
                )}
              </Field>
            </Form>
          ) : (
            <>
              <p class="secret"><Copyable text={link} label={words.value.copy} /></p>
              <p class="hint">{text.invitationHint}</p>
              <button type="button" class="btn btn-ink" onClick={close}>{words.value.close}</button>
            </>
          )}
        </>
      )}
    </Modal>
  );
}
