import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Share, ShareList } from "../link/client.ts";
import { request } from "../link/http.ts";
import { useData } from "../state/data.ts";
import { Button } from "../ui/button.tsx";
import { Field, Form } from "../ui/form.tsx";
import { Modal } from "../ui/modal.tsx";
import { Copyable } from "../ui/parts.tsx";
import { Shown } from "../ui/shown.tsx";
import { attempt } from "../ui/toast.tsx";
import { moment } from "../words/format.ts";
import { language, words } from "../words/index.ts";

const DAYS = [7, 30, 365];

/** The links by which colleagues read a conversation. */
export default function ShareLinks({ sessionId, onClose }: { sessionId: string; onClose: () => void }): JSX.Element {
  const path = `/v1/sessions/${sessionId}/shares`;
  const shares = useData<ShareList>(path);
  const [days, setDays] = useState("30");
  const text = words.value;

  async function make(): Promise<void> {
    await request<Share>("POST", path, days === "" ? {} : { days: Number(days) });
    await shares.reload();
  }
  async function end(share: Share): Promise<void> {
    await request("DELETE", `/v1/shares/${share.shareId}`);
    await shares.reload();
  }
  return (
    <Modal label={text.share} onClose={onClose}>
      {(close) => (
        <>
          <h2>{text.share}</h2>
          <p class="hint">{text.shareAbout}</p>
          <Shown of={shares}>
            {({ items }) => (
              <ul class="share-links">
                {items.map((share) => (
                  <li key={share.shareId}>
                    <Copyable text={`${location.origin}/shared/${share.shareId}`} label={text.shareCopy} />
                    <span class="hint">{share.expiresAt === undefined ? text.shareEndless : text.shareUntil(moment(share.expiresAt, language.value))}</span>
                    <Button onClick={() => attempt(end(share))}>{text.shareEnd}</Button>
                  </li>
                ))}
              </ul>
            )}
          </Shown>
          <Form submit={text.shareMake} onSubmit={make} onCancel={close} leave={text.close}>
            <Field label={text.shareFor}>
              {(control) => (
                <select {...control} value={days} onChange={(event) => setDays(event.currentTarget.value)}>
                  {DAYS.map((count) => <option key={count} value={String(count)}>{text.shareDays(count)}</option>)}
                  <option value="">{text.shareEndless}</option>
                </select>
              )}
            </Field>
          </Form>
        </>
      )}
    </Modal>
  );
}
