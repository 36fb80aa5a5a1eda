import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Line, WalletView as Wallet } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import { identity } from "../../link/who.ts";
import { may, type PageProps } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import "../../style/people.css";
import { Field, Form } from "../../ui/form.tsx";
import { Modal } from "../../ui/modal.tsx";
import { Money } from "../../ui/money.tsx";
import { Page } from "../../ui/page.tsx";
import { Figures, Section } from "../../ui/parts.tsx";
import { Button } from "../../ui/button.tsx";
import { Empty, More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";
import { TenantChoice } from "../../ui/tenant.tsx";

export type { Wallet };

/** The prepaid money of a tenant. */
export default function WalletPage({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const wallet = useData<Wallet>(withQuery("/v1/wallet", { tenant }));
  const statement = useList<Line>(withQuery("/v1/wallet/statement", { tenant }));
  const [isOpen, setOpen] = useState(false);
  const text = peopleWords.value;
  const reload = () => Promise.all([wallet.reload(), statement.reload()]);
  return (
    <Page
      title={words.value.pages.wallet}
      tools={
        <>
          <TenantChoice whole={identity.value?.tenant ?? ""} go={go} />
          {may("system:admin") && <Button primary onClick={() => setOpen(true)}>{text.credit}</Button>}
        </>
      }
    >
      <Shown of={wallet}>
        {(now) => (
          <>
            <Figures of={[[text.balance, <Money key="b" nano={now.balance} />], [text.credited, <Money key="c" nano={now.credited} />], [text.spent, <Money key="s" nano={now.spent} />]]} />
            {!now.prepaid && <p class="hint">{text.notPrepaid}</p>}
          </>
        )}
      </Shown>
      <Section title={text.statement}>
        <Shown of={statement}>
          {(lines) =>
            lines.length === 0 ? (
              <Empty>{text.noStatement}</Empty>
            ) : (
              <Table
                label={text.statement}
                rows={lines}
                keyOf={({ kind, reference }) => `${kind} ${reference}`}
                columns={[
                  { head: text.dayUtc, cell: ({ at }) => <time>{new Date(at).toISOString().slice(0, 10)}</time> },
                  { head: text.reference, cell: (line) => (line.kind === "usage" ? words.value.pages.usage : <bdi>{line.reference}</bdi>) },
                  { head: text.note, cell: ({ note }) => <bdi>{note ?? ""}</bdi> },
                  { head: text.amountOf, isFigure: true, cell: ({ amount }) => <Money nano={amount} /> },
                ]}
              />
            )
          }
        </Shown>
        <More more={statement.more} />
      </Section>
      {isOpen && <Credit tenant={tenant} onClose={() => setOpen(false)} onAdded={reload} />}
    </Page>
  );
}

function Credit({ tenant, onClose, onAdded }: { tenant: string | undefined; onClose: () => void; onAdded: () => Promise<unknown> }): JSX.Element {
  const [amountUsd, setAmount] = useState("");
  const [reference, setReference] = useState("");
  const [note, setNote] = useState("");
  const text = peopleWords.value;
  return (
    <Modal label={text.credit} onClose={onClose}>
      {(close) => (
        <>
          <h2>{text.credit}</h2>
          <Form
            submit={text.credit}
            onCancel={close}
            onSubmit={() => request("POST", withQuery("/v1/wallet/credits", { tenant }), { reference, amountUsd, ...(note === "" ? {} : { note }) }).then(onAdded).then(close)}
          >
            <Field label={text.amountUsd} hint={text.amountHint}>
              {(control) => <input {...control} type="text" required inputMode="decimal" autocomplete="off" value={amountUsd} onInput={(event) => setAmount(event.currentTarget.value)} />}
            </Field>
            <Field label={text.reference} hint={text.referenceHint}>
              {(control) => <input {...control} type="text" required maxLength={200} autocomplete="off" value={reference} onInput={(event) => setReference(event.currentTarget.value)} />}
            </Field>
            <Field label={text.note}>
              {(control) => <input {...control} type="text" maxLength={2000} autocomplete="off" value={note} onInput={(event) => setNote(event.currentTarget.value)} />}
            </Field>
          </Form>
        </>
      )}
    </Modal>
  );
}
