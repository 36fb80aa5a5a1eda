import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Device, identity, listDevices, signOutDevice } from "../../link/who.ts";
import { may } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import { changePreferences, type Preferences, preferences } from "../../state/preferences.ts";
import "../../style/people.css";
import { Button } from "../../ui/button.tsx";
import { Field } from "../../ui/form.tsx";
import { Money } from "../../ui/money.tsx";
import { Page } from "../../ui/page.tsx";
import { Figures, Section } from "../../ui/parts.tsx";
import type { Quota } from "../../ui/quota_bar.tsx";
import { attempt } from "../../ui/toast.tsx";
import { deviceName } from "../../words/device.ts";
import { moment } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";
import { sinceOf, type UsageRow } from "../money/usage_plot.tsx";
import { KeyTable } from "./key_table.tsx";
import { QuotaTable } from "./quota_table.tsx";

/** The user's own account. */
export default function Me(): JSX.Element {
  const who = identity.value;
  const usage = useData<{ items: UsageRow[] }>(may("usage:read") ? withQuery("/v1/usage", { since: sinceOf("30d", Date.now()) }) : undefined);
  const quotas = useList<Quota>(may("usage:read") && who?.userId !== undefined ? withQuery("/v1/quotas", { userId: who.userId }) : undefined);
  const text = peopleWords.value;
  const sum = usage.data?.items[0];
  return (
    <Page title={words.value.pages.me} tools={may("sessions:export") && <a class="btn" href="/v1/export" download title={text.exportHint}>{text.exportAll}</a>}>
      {who?.auth === "off" ? (
        <p class="warn">{text.authOff}</p>
      ) : (
        <p>{text.signedInAs} <bdi>{who?.user ?? `${text.keyNamed} ${who?.keyId}`}</bdi> · <bdi>{who?.tenant}</bdi>{who?.role !== undefined && <> · {text.roles[who.role] ?? who.role}</>}</p>
      )}
      <Looks />
      {sum !== undefined && (
        <Section title={text.myUsage}>
          <Figures of={[[text.spent, <Money key="p" nano={sum.price} isEstimate={sum.estimatedCalls > 0} />], [text.calls, sum.calls.toLocaleString(language.value)]]} />
        </Section>
      )}
      {quotas.data !== undefined && quotas.data.length > 0 && (
        <Section title={text.myLimits}>
          <QuotaTable quotas={quotas.data} userId={who?.userId} />
        </Section>
      )}
      {who?.userId !== undefined && (
        <KeyTable tenant={undefined} userId={who.userId} mayCreate={may("keys:admin")}>
          {(tools, table) => <Section title={text.myKeys} tools={tools}>{table}</Section>}
        </KeyTable>
      )}
      {who?.auth === "on" && <Devices />}
    </Page>
  );
}

/** How the user likes the console: applied at once, and on every device. */
function Looks(): JSX.Element {
  const now = preferences.value;
  const text = peopleWords.value;
  const set = (change: Preferences) => attempt(changePreferences(change));
  const choice = <K extends keyof Preferences>(name: K, label: string, options: readonly (readonly [NonNullable<Preferences[K]>, string])[]) => (
    <Field label={label}>
      {(control) => (
        <select {...control} value={now[name] ?? ""} onChange={(event) => set({ [name]: event.currentTarget.value === "" ? undefined : event.currentTarget.value })}>
          <option value="">{text.auto}</option>
          {options.map(([value, shown]) => <option key={value} value={value}>{shown}</option>)}
        </select>
      )}
    </Field>
  );
  return (
    <div class="filters">
      {choice("language", text.languageName, [["en", "English"], ["zh", "中文"]])}
      {choice("theme", text.theme, [["light", text.light], ["dark", text.dark]])}
      {choice("sendKey", text.sendKey, [["enter", text.sendEnter], ["modifier", text.sendModifier]])}
      {choice("density", text.density, [["regular", text.regular], ["dense", text.dense]])}
    </div>
  );
}

function Devices(): JSX.Element {
  const [devices, setDevices] = useState<Device[]>([]);
  const load = () => listDevices().then(setDevices);
  useEffect(() => attempt(load()), []);
  const text = peopleWords.value;
  const others = devices.filter(({ current }) => !current);
  return (
    <Section title={words.value.devices} tools={others.length > 1 && <Button onClick={() => attempt(Promise.all(others.map(signOutDevice)).then(load))}>{text.signOutAll}</Button>}>
      <p class="hint">{text.devicesHint}</p>
      <ul class="lines">
        {devices.map((device) => (
          <li key={device.browserSessionId}>
            <span class="device" title={device.userAgent}>{deviceName(device.userAgent) || words.value.unknownDevice}</span>
            <span class="hint">{device.current ? words.value.thisDevice : words.value.lastUsed(moment(device.lastUsedAt, language.value))}</span>
            <Button onClick={() => attempt(signOutDevice(device).then(() => (device.current ? undefined : load())))}>{words.value.signOut}</Button>
          </li>
        ))}
      </ul>
    </Section>
  );
}
