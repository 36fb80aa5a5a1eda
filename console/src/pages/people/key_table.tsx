import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { identity } from "../../link/who.ts";
import { useList, withQuery } from "../../state/data.ts";
import { Button } from "../../ui/button.tsx";
import { Confirm, Field, Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Copyable } from "../../ui/parts.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { NOTHING, Table } from "../../ui/table.tsx";
import { distance, moment } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";
import type { Key } from "./people.ts";

const GRACES = [0, 1, 24, 168] as const;
const DAYS = [30, 90, 365] as const;
const DAY_MS = 86_400_000;

interface Props {
  tenant: string | undefined;
  /** Only the keys of one user. */
  userId?: string;
  /** The names of users, where the keys of several are shown. */
  names?: Map<string, string>;
  mayCreate: boolean;
  /** The frame around the table: `tools` go beside its heading. */
  children: (tools: ComponentChildren, table: JSX.Element) => JSX.Element;
}

/** Keys, what can be done with each, and how another is made. */
export function KeyTable({ tenant, userId, names, mayCreate, children }: Props): JSX.Element {
  const keys = useList<Key>(withQuery("/v1/auth/keys", { tenant, userId }));
  const [dialog, setDialog] = useState<{ kind: "new" } | { kind: "rotate" | "revoke"; key: Key } | undefined>(undefined);
  const text = peopleWords.value;
  const now = Date.now();
  const isOver = (key: Key) => key.revokedAt !== undefined || (key.expiresAt !== undefined && key.expiresAt <= now);
  const isOwn = (key: Key) => key.keyId === identity.value?.keyId;
  const close = () => setDialog(undefined);
  return children(
    mayCreate && <Button primary onClick={() => setDialog({ kind: "new" })}>{text.newKey}</Button>,
    <>
      <Shown of={keys}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty>{text.noKeys}</Empty>
          ) : (
            <Table
              label={words.value.pages.keys}
              rows={rows}
              keyOf={({ keyId }) => keyId}
              columns={[
                { head: text.name, cell: ({ name, keyId }) => <><bdi>{name}</bdi> <code class="hint">avm_{keyId.slice(0, 4)}…</code></> },
                ...(names === undefined ? [] : [{ head: text.owner, cell: (key: Key) => (key.userId === undefined ? NOTHING : <bdi>{names.get(key.userId) ?? key.userId}</bdi>) }]),
                { head: text.lastUse, cell: ({ lastUsedAt }) => (lastUsedAt === undefined ? text.notYet : distance(lastUsedAt, language.value, now)) },
                {
                  head: text.expires,
                  cell: (key) => (key.revokedAt !== undefined ? <span class="warn">{text.revoked}</span> : key.expiresAt === undefined ? text.never : isOver(key) ? <span class="warn">{text.expired}</span> : moment(key.expiresAt, language.value)),
                },
                {
                  head: text.actions,
                  cell: (key) =>
                    isOver(key) ? null : (
                      <span class="row-tools">
                        <Button onClick={() => setDialog({ kind: "rotate", key })}>{text.rotate}</Button>
                        <span title={isOwn(key) ? text.keyOwn : undefined}><Button disabled={isOwn(key)} onClick={() => setDialog({ kind: "revoke", key })}>{text.revoke}</Button></span>
                      </span>
                    ),
                },
              ]}
            />
          )
        }
      </Shown>
      <More more={keys.more} />
      {dialog?.kind === "new" && <NewKey tenant={tenant} userId={userId} names={names} onClose={close} onMade={keys.reload} />}
      {dialog?.kind === "rotate" && <Rotate of={dialog.key} tenant={tenant} onClose={close} onMade={keys.reload} />}
      {dialog?.kind === "revoke" && (
        <Confirm
          title={`${text.revoke}${words.value.colon}${dialog.key.name}`}
          submit={text.revoke}
          typed={dialog.key.name}
          onConfirm={() => request("DELETE", withQuery(`/v1/auth/keys/${dialog.key.keyId}`, { tenant })).then(keys.reload)}
          onClose={close}
        >
          <p>{text.revokeHint}</p>
        </Confirm>
      )}
    </>,
  );
}

/** A key that is shown once. */
function Once({ text, onDone }: { text: string; onDone: () => void }): JSX.Element {
  return (
    <>
      <p>{peopleWords.value.keyShown}</p>
      <div class="secret">
        <Copyable text={text} />
        <span class="hint">{peopleWords.value.envLine}</span>
        <Copyable text={`AVM_KEY=${text}`} />
      </div>
      <button type="button" class="btn btn-ink" onClick={onDone}>{words.value.close}</button>
    </>
  );
}

function NewKey({ tenant, userId, names, onClose, onMade }: { tenant: string | undefined; userId: string | undefined; names: Map<string, string> | undefined; onClose: () => void; onMade: () => Promise<void> }): JSX.Element {
  const [name, setName] = useState("");
  const [owner, setOwner] = useState(userId ?? "");
  const [days, setDays] = useState(0);
  const [made, setMade] = useState("");
  const text = peopleWords.value;
  async function create(): Promise<void> {
    const body = { name, ...(owner === "" ? {} : { userId: owner }), ...(days === 0 ? {} : { expiresAt: Date.now() + days * DAY_MS }) };
    setMade((await request<Key>("POST", withQuery("/v1/auth/keys", { tenant }), body)).key ?? "");
    await onMade();
  }
  return (
    <Modal label={text.newKey} onClose={onClose}>
      {(close) => (
        <>
          <h2>{text.newKey}</h2>
          {made !== "" ? (
            <Once text={made} onDone={close} />
          ) : (
            <Form submit={text.newKey} onSubmit={create} onCancel={close}>
              <Field label={text.name}>
                {(control) => <input {...control} type="text" required maxLength={200} autocomplete="off" value={name} onInput={(event) => setName(event.currentTarget.value)} />}
              </Field>
              {userId === undefined && names !== undefined && (
                <Field label={text.owner}>
                  {(control) => (
                    <select {...control} value={owner} onChange={(event) => setOwner(event.currentTarget.value)}>
                      <option value="">{text.everybody}</option>
                      {[...names].map(([id, shown]) => <option key={id} value={id}>{shown}</option>)}
                    </select>
                  )}
                </Field>
              )}
              <Field label={text.expires}>
                {(control) => (
                  <select {...control} value={days} onChange={(event) => setDays(Number(event.currentTarget.value))}>
                    <option value={0}>{text.never}</option>
                    {DAYS.map((count) => <option key={count} value={count}>{text.days(count)}</option>)}
                  </select>
                )}
              </Field>
            </Form>
          )}
        </>
      )}
    </Modal>
  );
}

function Rotate({ of, tenant, onClose, onMade }: { of: Key; tenant: string | undefined; onClose: () => void; onMade: () => Promise<void> }): JSX.Element {
  const [hours, setHours] = useState(of.keyId === identity.value?.keyId ? 1 : 0);
  const [made, setMade] = useState("");
  const text = peopleWords.value;
  async function rotate(): Promise<void> {
    const rotated = await request<Key>("POST", withQuery(`/v1/auth/keys/${of.keyId}/rotate`, { tenant }), { graceSeconds: hours * 3_600 });
    setMade(rotated.key ?? "");
    await onMade();
  }
  return (
    <Modal label={text.rotate} onClose={onClose}>
      {(close) => (
        <>
          <h2>{text.rotate}{words.value.colon}<bdi>{of.name}</bdi></h2>
          {made !== "" ? (
            <Once text={made} onDone={close} />
          ) : (
            <Form submit={text.rotate} onSubmit={rotate} onCancel={close}>
              <p>{text.rotateHint}</p>
              <Field label={text.grace}>
                {(control) => (
                  <select {...control} value={hours} onChange={(event) => setHours(Number(event.currentTarget.value))}>
                    {GRACES.map((count) => <option key={count} value={count}>{count === 0 ? text.atOnce : count < 24 ? text.hours(count) : text.days(count / 24)}</option>)}
                  </select>
                )}
              </Field>
            </Form>
          )}
        </>
      )}
    </Modal>
  );
}
