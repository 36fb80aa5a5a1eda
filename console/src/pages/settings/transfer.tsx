import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ImportReport as Report } from "../../link/client.ts";
import { may, type PageProps } from "../../routes.ts";
import { sendFile } from "../../link/files.ts";
import { withQuery } from "../../state/data.ts";
import "../../style/activity.css";
import { FileInput } from "../../ui/file_input.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Figures, JsonTree, Section } from "../../ui/parts.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { language, words } from "../../words/index.ts";
import { bytes } from "../../words/measure.ts";
import { settingsWords } from "../../words/settings/index.ts";

const KINDS = ["auto", "archive", "chatgpt", "claude", "openwebui"];
const FORMATS = ["archive", "markdown", "html"];

/** Conversations from elsewhere, after a dry run; and all of one's own to take away. */
export default function Transfer({ query, go }: PageProps): JSX.Element {
  return (
    <Page title={words.value.pages.importExport} tools={<TenantChoice whole={activityWords.value.ofTenant} go={go} />}>
      {may("images:write") && <Import tenant={query["tenant"]} />}
      {may("sessions:export") && <Export tenant={query["tenant"]} />}
    </Page>
  );
}

function Import({ tenant }: { tenant: string | undefined }): JSX.Element {
  const text = settingsWords.value;
  const [file, setFile] = useState<File | undefined>(undefined);
  const [kind, setKind] = useState("auto");
  const [container, setContainer] = useState("");
  const [report, setReport] = useState<Report | undefined>(undefined);
  const isChecked = report?.dryRun === true;
  return (
    <Section title={text.import}>
      <Form
        submit={isChecked ? text.import : text.dryRun}
        disabled={file === undefined}
        onSubmit={async () => {
          const path = withQuery("/v1/import", { tenant, from: kind, container: container.trim(), dryRun: isChecked ? "false" : "true" });
          setReport(await sendFile<Report>("POST", path, file as File));
        }}
      >
        <Field label={text.chooseFile} hint={text.chooseFileHint}>
          {(control) => (
            <FileInput
              control={control}
              accept=".zip,.json,application/zip,application/json"
              onFiles={([first]) => {
                setFile(first);
                setReport(undefined);
              }}
            />
          )}
        </Field>
        <Field label={text.fileOf}>
          {(control) => (
            <select {...control} value={kind} onChange={(event) => (setKind(event.currentTarget.value), setReport(undefined))}>
              {KINDS.map((name) => <option key={name} value={name}>{text.kinds[name]}</option>)}
            </select>
          )}
        </Field>
        <Field label={text.container} hint={text.containerHint}>
          {(control) => <input {...control} type="text" value={container} onInput={(event) => (setContainer(event.currentTarget.value), setReport(undefined))} />}
        </Field>
        {report !== undefined && <ReportView report={report} />}
      </Form>
    </Section>
  );
}

function ReportView({ report }: { report: Report }): JSX.Element {
  const text = settingsWords.value;
  const count = (value: number) => value.toLocaleString(language.value);
  return (
    <div class="preview" role="status">
      <h3>{report.dryRun ? text.importPreview : text.importDone}</h3>
      <Figures
        of={[
          [text.fileOf, text.kinds[report.format] ?? report.format],
          ...Object.entries(report.counts).map(([name, value]) => [text.counts[name] ?? name, count(value)] as const),
          [text.known, count(report.known)],
          [text.continued, count(report.continued)],
          [text.bytes, bytes(report.bytes)],
        ]}
      />
      {report.containers.length > 0 && <p>{text.container}{words.value.colon}{report.containers.map((name) => <code key={name} dir="auto">{name} </code>)}</p>}
      {Object.keys(report.renamed).length > 0 && <JsonTree name={text.renamed} value={report.renamed} />}
    </div>
  );
}

function Export({ tenant }: { tenant: string | undefined }): JSX.Element {
  const text = settingsWords.value;
  const [format, setFormat] = useState("archive");
  return (
    <Section title={text.export}>
      <p class="hint">{text.exportWhat}</p>
      <div class="filters export">
        <Field label={text.exportFormat}>
          {(control) => (
            <select {...control} value={format} onChange={(event) => setFormat(event.currentTarget.value)}>
              {FORMATS.map((name) => <option key={name} value={name}>{text.exportFormats[name]}</option>)}
            </select>
          )}
        </Field>
        <a class="btn btn-ink" href={withQuery("/v1/export", { tenant, format })} download>{text.exportAll}</a>
      </div>
    </Section>
  );
}
