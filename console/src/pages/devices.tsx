import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Device, listDevices, signOutDevice } from "../link/who.ts";
import { Button } from "../ui/button.tsx";
import { Modal } from "../ui/modal.tsx";
import { said } from "../ui/problem.tsx";
import { clock, when } from "../words/format.ts";
import { deviceName } from "../words/device.ts";
import { language, words } from "../words/index.ts";

/** The browsers that are signed in as the same user, each with its own way out. */
export default function Devices({ onClose }: { onClose: () => void }): JSX.Element {
  const [devices, setDevices] = useState<Device[]>([]);
  const [problem, setProblem] = useState("");
  const load = () => listDevices().then(setDevices, (error: unknown) => setProblem(said(error)));

  useEffect(() => void load(), []);

  function end(device: Device): void {
    setProblem("");
    void signOutDevice(device).then(() => (device.current ? undefined : load()), (error: unknown) => setProblem(said(error)));
  }

  return (
    <Modal label={words.value.devices} className="devices" onClose={onClose}>
      {(close) => (
        <>
          <h2>{words.value.devices}</h2>
          <p role="alert" class="problem">{problem}</p>
          <ul>
            {devices.map((device) => (
              <li key={device.browserSessionId}>
                <span class="device" title={device.userAgent}>{deviceName(device.userAgent) || words.value.unknownDevice}</span>
                <span class="hint">{device.current ? words.value.thisDevice : words.value.lastUsed(shown(device.lastUsedAt))}</span>
                <Button onClick={() => end(device)}>{words.value.signOut}</Button>
              </li>
            ))}
          </ul>
          <Button primary onClick={close}>{words.value.close}</Button>
        </>
      )}
    </Modal>
  );
}

function shown(at: number): string {
  const day = when(at, language.value, Date.now());
  const time = clock(at, language.value);
  return day === time ? time : `${day} ${time}`;
}
