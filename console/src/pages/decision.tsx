import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Commands } from "../link/client.ts";
import { ask } from "../link/socket.ts";
import { safeLink } from "../markdown/links.ts";
import type { ToolItem, Wait } from "../state/fold.ts";
import { contentOf, type Field, fieldsOf, isLong } from "../state/question.ts";
import { Button } from "../ui/button.tsx";
import { said } from "../ui/problem.tsx";
import { moment } from "../words/format.ts";
import { language, words } from "../words/index.ts";
import { reasonsOf } from "../words/rule.ts";

type Answer = Omit<Commands["tool_answer"]["request"], "waitId" | "fingerprint">;
type Decide = (answer: Answer) => void;

/** What a person can decide about a call, or is asked by it. The fingerprint binds the answer to this call with this input. */
export function Decision({ item, wait }: { item: ToolItem; wait: Wait }): JSX.Element {
  const [problem, setProblem] = useState("");
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const own = box.current;
    // Who decides with the keyboard goes on at the card, which stays.
    return () => {
      if (own?.contains(document.activeElement)) own.closest(".tool")?.querySelector("summary")?.focus();
    };
  }, []);
  function decide(answer: Answer): void {
    setProblem("");
    ask("tool_answer", { waitId: wait.waitId, fingerprint: wait.fingerprint, ...answer }).catch((error: unknown) => setProblem(said(error)));
  }
  return (
    <div ref={box} class="decision">
      <Choice item={item} wait={wait} decide={decide} tell={setProblem} />
      <p role="alert" class="problem">{problem}</p>
    </div>
  );
}

function Choice({ item, wait, decide, tell }: { item: ToolItem; wait: Wait; decide: Decide; tell: (problem: string) => void }): JSX.Element {
  if (wait.questions !== undefined) return <Questions wait={wait} decide={decide} />;
  if (wait.waits === "timer") return <Timer wait={wait} decide={decide} />;
  if (wait.waits === "consent") return <Consent wait={wait} decide={decide} />;
  return wait.waits === "client" ? <ClientResult decide={decide} tell={tell} /> : <Approval item={item} wait={wait} decide={decide} tell={tell} />;
}

/** A call that a rule lets nobody make without asking. */
function Approval({ item, wait, decide, tell }: { item: ToolItem; wait: Wait; decide: Decide; tell: (problem: string) => void }): JSX.Element {
  const [reason, setReason] = useState("");
  const [edited, setEdited] = useState<string | undefined>(undefined);
  const may = (decision: string) => wait.decisions.includes(decision);
  const why = <p>{words.value.whyAsked}{words.value.colon}{reasonsOf(wait.why)}</p>;
  if (edited !== undefined)
    return (
      <>
        {why}
        <JsonInput label={words.value.input} text={edited} onInput={setEdited} />
        <div class="decision-row">
          <Button primary onClick={() => withJson(edited, tell, (input) => decide({ decision: "edit", input: input as Record<string, unknown> }))}>{words.value.allowEdited}</Button>
          <Button onClick={() => setEdited(undefined)}>{words.value.cancel}</Button>
        </div>
      </>
    );
  return (
    <>
      {why}
      <div class="decision-row">
        {may("approve") && <Button primary onClick={() => decide({ decision: "approve" })}>{words.value.allow}</Button>}
        {may("edit") && <Button onClick={() => setEdited(JSON.stringify(item.input, null, 2))}>{words.value.edit}</Button>}
        <Button onClick={() => decide({ decision: "deny", ...(reason === "" ? {} : { reason }) })}>{words.value.deny}</Button>
        <input aria-label={words.value.denyReason} placeholder={words.value.denyReason} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </div>
    </>
  );
}

/** A tool that a program of the user should run; who has no such program gives the result by hand. */
function ClientResult({ decide, tell }: { decide: Decide; tell: (problem: string) => void }): JSX.Element {
  const [text, setText] = useState("");
  return (
    <>
      <p>{words.value.clientTool}</p>
      <JsonInput label={words.value.result} text={text} onInput={setText} />
      <div class="decision-row">
        <Button primary onClick={() => withJson(text, tell, (result) => decide({ decision: "answer", result }))}>{words.value.reply}</Button>
        <Button onClick={() => decide({ decision: "deny" })}>{words.value.deny}</Button>
      </div>
    </>
  );
}

function Timer({ wait, decide }: { wait: Wait; decide: Decide }): JSX.Element {
  return (
    <>
      {wait.expiresAt !== undefined && <p>{words.value.goesOnAt(moment(wait.expiresAt, language.value))}</p>}
      <div class="decision-row">
        <Button primary onClick={() => decide({ decision: "answer", result: {} })}>{words.value.goOnNow}</Button>
        <Button onClick={() => decide({ decision: "deny" })}>{words.value.cancel}</Button>
      </div>
    </>
  );
}

function Consent({ wait, decide }: { wait: Wait; decide: Decide }): JSX.Element {
  return (
    <>
      <p>{words.value.consent}</p>
      <div class="decision-row">
        <PageLink href={wait.url} />
        <Button primary onClick={() => decide({ decision: "approve" })}>{words.value.goOn}</Button>
        <Button onClick={() => decide({ decision: "deny" })}>{words.value.deny}</Button>
      </div>
    </>
  );
}

function PageLink({ href }: { href: string | undefined }): JSX.Element | null {
  const url = safeLink(href ?? "");
  return url === undefined ? null : <a class="btn" href={url.href} target="_blank" rel="noopener noreferrer nofollow">{words.value.openPage(url.host)}</a>;
}

/** The questions of a tool: each a form, or a page that has to be visited. */
function Questions({ wait, decide }: { wait: Wait; decide: Decide }): JSX.Element {
  const questions = Object.entries(wait.questions ?? {});
  function send(form: HTMLFormElement): void {
    const data = new FormData(form);
    const result = Object.fromEntries(questions.map(([key, question]) => [key, contentOf(key, fieldsOf(question), data)]));
    decide({ decision: "answer", result });
  }
  return (
    <form
      class="questions"
      onSubmit={(event) => {
        event.preventDefault();
        send(event.currentTarget);
      }}
    >
      {questions.map(([key, question]) => {
        const fields = fieldsOf(question);
        const label = fields.length === 1 ? question.message : undefined;
        return (
          <div key={key} class="question">
            {label === undefined && <p class="said" dir="auto">{question.message}</p>}
            {question.mode === "url" && <PageLink href={question.url} />}
            {fields.map((field) => <QuestionField key={field.name} name={`${key}.${field.name}`} field={field} label={label ?? field.title} />)}
          </div>
        );
      })}
      <div class="decision-row">
        <button type="submit" class="btn btn-ink">{words.value.reply}</button>
        <Button onClick={() => decide({ decision: "deny" })}>{words.value.replyNot}</Button>
      </div>
    </form>
  );
}

function QuestionField({ name, field, label }: { name: string; field: Field; label: string }): JSX.Element {
  const { kind, options, about, initial } = field;
  if (kind === "one" || kind === "several")
    return (
      <fieldset class="options">
        <legend class="said" dir="auto">{label}</legend>
        {about !== undefined && <p class="hint" dir="auto">{about}</p>}
        {options.map(([value, title]) => (
          <label key={value} class="check">
            <input
              type={kind === "one" ? "radio" : "checkbox"} name={name} value={value}
              required={kind === "one" && field.isRequired && !field.hasOther} defaultChecked={initial.includes(value)}
            />
            <span dir="auto">{title}</span>
          </label>
        ))}
        {field.hasOther && <input type="text" name={`${name}.other`} aria-label={words.value.replyOther} placeholder={words.value.replyOther} autocomplete="off" />}
      </fieldset>
    );
  if (kind === "yes")
    return (
      <label class="check"><input type="checkbox" name={name} defaultChecked={initial.length > 0} /> <span dir="auto">{label}</span></label>
    );
  const shared = { name, required: field.isRequired, defaultValue: initial[0] ?? "" };
  return (
    <Labelled label={label} about={about}>
      {isLong(field) ? <textarea rows={2} {...shared} /> : <input type={field.type as "text"} step={field.step} autocomplete="off" {...shared} />}
    </Labelled>
  );
}

function Labelled({ label, about, children }: { label: string; about: string | undefined; children: ComponentChildren }): JSX.Element {
  return (
    <label class="field">
      <span class="said" dir="auto">{label}</span>
      {about !== undefined && <span class="hint" dir="auto">{about}</span>}
      {children}
    </label>
  );
}

function JsonInput({ label, text, onInput }: { label: string; text: string; onInput: (text: string) => void }): JSX.Element {
  return <textarea class="mono" dir="ltr" aria-label={label} placeholder={`${label} (JSON)`} rows={Math.min(12, Math.max(3, text.split("\n").length))} value={text} onInput={(event) => onInput(event.currentTarget.value)} />;
}

function withJson(text: string, tell: (problem: string) => void, run: (value: unknown) => void): void {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    tell(words.value.invalidJson);
    return;
  }
  run(value);
}
