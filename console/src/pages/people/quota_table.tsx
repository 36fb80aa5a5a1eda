import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { withQuery } from "../../state/data.ts";
import { Button } from "../../ui/button.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { type Quota, QuotaBar } from "../../ui/quota_bar.tsx";
import { Table } from "../../ui/table.tsx";
import { bytes } from "../../words/measure.ts";
import { peopleWords } from "../../words/people/index.ts";

const NANO = 1_000_000_000;

interface Props {
  quotas: readonly Quota[];
  tenant?: string | undefined;
  names?: Map<string, string>;
  /** The user whose limits these are. */
  userId?: string;
  /** Called after a change; without it nothing can be changed. */
  onChanged?: () => Promise<void>;
}

/** Limits, each as one bar. */
export function QuotaTable({ quotas, tenant, names, userId, onChanged }: Props): JSX.Element {
  const [edited, setEdited] = useState<Quota | undefined>(undefined);
  const text = peopleWords.value;
  const whose = (quota: Quota) => (userId !== undefined ? "" : quota.eachUser ? text.eachUser : quota.userId === undefined ? "" : (names?.get(quota.userId) ?? quota.userId));
  return (
    <>
      <Table
        label={text.limits}
        rows={quotas}
        keyOf={({ metric, userId: of, eachUser }) => `${metric} ${of ?? ""} ${eachUser ?? ""}`}
        columns={[
          { head: text.metric, cell: (quota) => <>{text.metrics[quota.metric] ?? quota.metric}{whose(quota) !== "" && <span class="hint"> · <bdi>{whose(quota)}</bdi></span>}</> },
          { head: text.used, cell: (quota) => <QuotaBar quota={quota} /> },
          ...(onChanged === undefined ? [] : [{ head: text.actions, cell: (quota: Quota) => <span class="row-tools"><Button onClick={() => setEdited(userId === undefined ? quota : { ...quota, userId })}>{text.editLimit}</Button></span> }]),
        ]}
      />
      {edited !== undefined && onChanged !== undefined && <Edit quota={edited} tenant={tenant} onClose={() => setEdited(undefined)} onChanged={onChanged} />}
    </>
  );
}

function Edit({ quota, tenant, onClose, onChanged }: { quota: Quota; tenant: string | undefined; onClose: () => void; onChanged: () => Promise<void> }): JSX.Element {
  const unit = quota.metric.startsWith("budget") ? NANO : 1;
  const [hard, setHard] = useState(quota.hard === undefined ? "" : String(quota.hard / unit));
  const [soft, setSoft] = useState(quota.soft === undefined ? "" : String(quota.soft / unit));
  const text = peopleWords.value;
  const of: Pick<Quota, "metric" | "eachUser" | "userId"> = { metric: quota.metric, ...(quota.eachUser ? { eachUser: true } : quota.userId === undefined ? {} : { userId: quota.userId }) };
  const number = (written: string) => Math.round(Number(written) * unit);
  async function save(): Promise<void> {
    await request("PUT", withQuery("/v1/quotas", { tenant }), { ...of, ...(hard === "" ? {} : { hard: number(hard) }), ...(soft === "" ? {} : { soft: number(soft) }) });
    await onChanged();
  }
  async function remove(): Promise<void> {
    await request("DELETE", withQuery("/v1/quotas", { tenant, metric: of.metric, userId: of.userId, eachUser: of.eachUser ? "true" : undefined }));
    await onChanged();
  }
  const amountOf = (written: string) => (written === "" || !/bytes/.test(quota.metric) ? undefined : bytes(Number(written)));
  const isEmpty = hard === "" && soft === "";
  const isUnlimited = quota.hard === undefined && quota.soft === undefined;
  const suffix = unit === NANO ? " ($)" : "";
  return (
    <Modal label={text.editLimit} onClose={onClose}>
      {(close) => (
        <>
          <h2>{text.metrics[quota.metric] ?? quota.metric}</h2>
          <Form submit={isEmpty && !isUnlimited ? text.removeLimit : text.save} disabled={isEmpty && isUnlimited} onSubmit={() => (isEmpty ? remove() : save()).then(close)} onCancel={close}>
            <Field label={text.hard + suffix} hint={amountOf(hard) ?? text.noLimitHint}>
              {(control) => <input {...control} type="number" min="0" step="any" inputMode="decimal" value={hard} onInput={(event) => setHard(event.currentTarget.value)} />}
            </Field>
            <Field label={text.soft + suffix} hint={amountOf(soft) ?? text.softHint}>
              {(control) => <input {...control} type="number" min="0" step="any" inputMode="decimal" value={soft} onInput={(event) => setSoft(event.currentTarget.value)} />}
            </Field>
          </Form>
        </>
      )}
    </Modal>
  );
}
