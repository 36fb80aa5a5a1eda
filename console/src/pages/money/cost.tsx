import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { CostReport, Requirement, TenantMargin, Workload } from "../../link/client.ts";
import type { PageProps } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import "../../style/people.css";
import { Field, Form } from "../../ui/form.tsx";
import { Money } from "../../ui/money.tsx";
import { Page } from "../../ui/page.tsx";
import { Figures, Section } from "../../ui/parts.tsx";
import { Shown } from "../../ui/shown.tsx";
import { NOTHING, Table } from "../../ui/table.tsx";
import { language, words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";

const NANO = 1_000_000_000;
const SHAPES: readonly CostReport["shape"][] = ["one-node", "cluster", "edge"];
const FIELDS = ["users", "turns", "seconds", "deltas", "textBytes", "connected", "peak", "tools", "toolSeconds", "visits", "months"] as const;

/** The monthly bill of a workload, which is in the address, and how it would change. */
export default function Cost({ query, go }: PageProps): JSX.Element {
  const text = peopleWords.value.cost;
  const asked = Object.fromEntries(FIELDS.map((name) => [name, query[name]]));
  const shape = SHAPES.find((name) => name === query["shape"]) ?? "one-node";
  const report = useData<CostReport>(withQuery("/v1/cost", { ...asked, shape }));
  return (
    <Page title={words.value.pages.cost}>
      <p class="hint">{text.about}</p>
      <label class="bars">
        {text.shape}{" "}
        <select value={shape} onChange={(event) => go(withQuery("/usage/cost", { ...asked, shape: event.currentTarget.value }))}>
          {SHAPES.map((name) => <option key={name} value={name}>{text.shapes[name]}</option>)}
        </select>
      </label>
      <Shown of={report}>{(found) => <Bill of={found} />}</Shown>
      <Section title={text.workload}>
        {/* A workload that was refused has no report: the form then begins with what is in the address. */}
        <WorkloadForm key={report.data === undefined ? "asked" : "found"} of={report.data?.workload} asked={asked} onChange={(fields) => go(withQuery("/usage/cost", { ...fields, shape }))} />
      </Section>
      <Margins />
    </Page>
  );
}

function Bill({ of }: { of: CostReport }): JSX.Element {
  const text = peopleWords.value.cost;
  const number = (value: number) => value.toLocaleString(language.value, Math.abs(value) < 100 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 0 });
  const needs: (readonly [string, Requirement])[] = [
    [text.needs["serverCores"]!, of.needs.serverCores],
    [text.needs["toolCores"]!, of.needs.toolCores],
    [text.needs["memory"]!, of.needs.memory],
    [text.needs["disk"]!, of.needs.disk],
    [text.needs["diskSyncs"]!, of.needs.diskSyncs],
    [text.needs["backup"]!, of.needs.backup],
    [text.needs["traffic"]!, of.needs.traffic],
  ];
  const terms = needs.flatMap(([name, { unit, terms }]) => terms.map((term) => ({ ...term, need: name, unit })));
  // The edge is billed by what it counts, and not by what servers have.
  const counts = of.lines.map((line) => ({ ...line, need: "", by: line.by ?? "" }));
  return (
    <>
      {of.total === undefined ? (
        <p class="warn">{text.tooMuch} <span dir="ltr">{of.problem}</span></p>
      ) : (
        <>
          <Figures
            of={[
              [text.total, <Dollars key="total" amount={of.total} />],
              [text.perThousand, <Dollars key="each" amount={of.perThousandUsers} />],
              [text.breakEven, <Dollars key="even" amount={of.breakEven} />],
            ]}
          />
          <p class="hint">{text.breakEvenAbout}</p>
          <Section title={text.shapes[of.shape]!}>
            <Table
              label={text.shapes[of.shape]!}
              rows={of.lines}
              keyOf={({ name }) => name}
              columns={[
                { head: text.item, cell: ({ name }) => lineName(name) },
                { head: text.amount, isFigure: true, cell: ({ amount, unit }) => `${number(amount)} ${text.units[unit] ?? unit}` },
                { head: text.month, isFigure: true, cell: ({ price }) => <Dollars amount={price} /> },
                { head: text.source, cell: ({ source }) => <Source of={source} /> },
              ]}
            />
          </Section>
        </>
      )}
      <Section title={text.whatIf}>
        <Table
          label={text.whatIf}
          rows={of.sensitivity}
          keyOf={({ change }) => change}
          columns={[
            { head: text.change, cell: ({ change }) => text.changes[change] ?? change },
            { head: text.month, isFigure: true, cell: ({ price }) => (price === null ? text.moreServers : <Dollars amount={price} />) },
          ]}
        />
      </Section>
      {of.peers.length > 0 && (
        <Section title={text.elsewhere}>
          <Table
            label={text.elsewhere}
            rows={of.peers}
            keyOf={({ name }) => name}
            columns={[
              { head: text.platform, cell: ({ name }) => text.peers[name] ?? name },
              { head: text.month, isFigure: true, cell: ({ price }) => <Dollars amount={price} /> },
              { head: text.ratio, isFigure: true, cell: ({ ratio }) => (ratio === null ? NOTHING : `${Math.round(ratio).toLocaleString(language.value)} ×`) },
              { head: text.source, cell: ({ source }) => <Source of={source} /> },
            ]}
          />
        </Section>
      )}
      {(of.shape !== "edge" || counts.length > 0) && <Section title={text.needed}>
        <Table
          label={text.needed}
          rows={of.shape === "edge" ? counts : terms}
          keyOf={({ need, name }) => `${need}/${name}`}
          columns={[
            { head: text.item, cell: ({ need, name }) => (need === "" ? lineName(name) : `${need} · ${text.terms[name] ?? name}`) },
            { head: text.amount, isFigure: true, cell: ({ amount, unit }) => `${number(amount)} ${text.units[unit] ?? unit}` },
            { head: text.because, cell: ({ by }) => <code dir="ltr">{by}</code> },
          ]}
        />
      </Section>}
      <Section title={text.measures}>
        <Table
          label={text.measures}
          rows={of.measures}
          keyOf={({ name, source }) => `${name}/${source}`}
          columns={[
            { head: text.item, cell: ({ name }) => text.measureNames[name] ?? name },
            { head: text.amount, isFigure: true, cell: ({ value, unit }) => `${number(value)} ${text.units[unit] ?? unit}` },
            { head: text.source, cell: ({ source }) => <Source of={source} /> },
          ]}
        />
      </Section>
      <p class="hint">{text.measured(of.measuredOn, of.version, of.machine, of.pricesOf)}</p>
    </>
  );
}

/** Where a number is from, in the language in use where its words are known. */
function Source({ of }: { of: string }): JSX.Element {
  const said = peopleWords.value.cost.sourceOf(of);
  return <span class="hint" lang={said === undefined ? "en" : undefined}>{said ?? of}</span>;
}

/** What each tenant was charged and has cost, and what its sandboxes would have cost elsewhere. */
function Margins(): JSX.Element {
  const text = peopleWords.value.cost;
  const tenants = useList<TenantMargin>("/v1/cost/tenants");
  return (
    <Section title={text.margins}>
      <p class="hint">{text.marginsAbout}</p>
      <Table
        label={text.margins}
        rows={tenants.data ?? []}
        keyOf={({ tenantId }) => tenantId}
        columns={[
          { head: text.tenant, cell: ({ slug }) => <span dir="auto">{slug}</span> },
          { head: text.charged, isFigure: true, cell: ({ price }) => <Money nano={price} /> },
          { head: text.paid, isFigure: true, cell: ({ cost }) => <Money nano={cost} /> },
          { head: text.margin, isFigure: true, cell: ({ margin }) => <Money nano={margin} /> },
          { head: text.saved, isFigure: true, cell: ({ saved }) => (saved === undefined ? NOTHING : <Money nano={saved} />) },
        ]}
      />
    </Section>
  );
}

/** A line of the bill: its kind, then the name of the machine, which is of the price table. */
function lineName(name: string): string {
  const { lines } = peopleWords.value.cost;
  const [kind = "", ...machine] = name.split(", ");
  return lines[name] ?? [lines[kind] ?? kind, ...machine].join(" · ");
}

function Dollars({ amount = 0 }: { amount?: number }): JSX.Element {
  return <Money nano={Math.round(amount * 100) * (NANO / 100)} />;
}

interface WorkloadFormProps {
  of: Workload | undefined;
  asked: Readonly<Record<string, string | undefined>>;
  onChange: (fields: Record<string, string>) => void;
}

function WorkloadForm({ of, asked, onChange }: WorkloadFormProps): JSX.Element {
  const text = peopleWords.value.cost;
  const [fields, setFields] = useState(() => Object.fromEntries(FIELDS.map((name) => [name, asked[name] ?? String(of?.[name] ?? "")])));
  return (
    <Form submit={text.compute} onSubmit={async () => onChange(fields)}>
      <div class="filters">
        {FIELDS.map((name) => (
          <Field key={name} label={text.fields[name]!}>
            {(control) => <input {...control} type="text" inputMode="decimal" dir="ltr" autocomplete="off" value={fields[name]} onInput={(event) => setFields({ ...fields, [name]: event.currentTarget.value.trim() })} />}
          </Field>
        ))}
      </div>
    </Form>
  );
}
