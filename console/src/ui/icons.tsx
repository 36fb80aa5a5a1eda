/** The drawings of the console: 20 by 20, one stroke. */

import type { JSX } from "preact";

const PATHS = {
  chat: "M4 5h12v8H9l-4 3v-3H4z",
  close: "m5 5 10 10M15 5 5 15",
  save: "M10 4v9m-4-4 4 4 4-4M4 16h12",
  search: "M9 4a5 5 0 1 1 0 10A5 5 0 0 1 9 4zm4 9 4 4",
  plus: "M10 4v12M4 10h12",
  folder: "M3 15V5h5l2 2h7v8z",
  send: "M10 16V5m-5 5 5-5 5 5",
  stop: "M5.500 5.500h9v9h-9z",
  list: "M4 6h12M4 10h12M4 14h12",
  theme: "M10 3a7 7 0 1 0 7 7 5 5 0 0 1-7-7z",
  devices: "M3 4h11v8H3zm0 11h7m2-6h5v8h-5z",
  out: "M8 4H4v12h4M9 10h8m-3-3 3 3-3 3",
  bin: "M4 6h12M8 6V4h4v2m-6 0 1 10h6l1-10",
  pen: "m4 16 1-4 8-8 3 3-8 8z",
  copy: "M7 7h9v9H7zM4 13V4h9",
  again: "M16 4v4h-4M15.660 8A6 6 0 1 0 16 10.500",
  branches: "M6 7v6m0-3c4 0 8-1 8-3M6 3.500a1.800 1.800 0 1 1 0 3.600 1.800 1.800 0 0 1 0-3.600zm0 9.400a1.800 1.800 0 1 1 0 3.600 1.800 1.800 0 0 1 0-3.600zM14 3.500a1.800 1.800 0 1 1 0 3.600 1.800 1.800 0 0 1 0-3.600z",
  fork: "M6 4v5a3 3 0 0 0 3 3h6m-3-3 3 3-3 3",
  back: "M8 5 4 9l4 4M4 9h8a4 4 0 0 1 0 8",
  pin: "M7 4h6m-5 0v5l-2 3h8l-2-3V4m-2 8v5",
  archive: "M3 5h14v3H3zm1 3v8h12V8m-8 3h4",
  more: "M4.700 10a.3.3 0 1 0 .6 0 .3.3 0 1 0-.6 0zm5 0a.3.3 0 1 0 .6 0 .3.3 0 1 0-.6 0zm5 0a.3.3 0 1 0 .6 0 .3.3 0 1 0-.6 0z",
  keys: "M3 5h14v10H3zM6 8h.01M10 8h.01M14 8h.01M7 12h6",
  command: "M7 7h6v6H7zM7 7H5a2 2 0 1 1 2-2zm6 0V5a2 2 0 1 1 2 2zm0 6h2a2 2 0 1 1-2 2zm-6 0v2a2 2 0 1 1-2-2z",
  tool: "M12 4a4 4 0 0 0-4 5l-4 4 3 3 4-4a4 4 0 0 0 5-5l-2 2-3-3z",
  agents: "M4 8h12v8H4zM10 8V4m-3 7v1m6-1v1m-4 2h2M2.5 11v2m15-2v2",
  resources: "M4 4h5v5H4zm7 0h5v5h-5zM4 11h5v5H4zm7 0h5v5h-5z",
  activity: "M3 10h3l2-6 4 12 2-6h3",
  usage: "M4 16V9m4 7V5m4 11v-5m4 5V7",
  people: "M7 4a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5zM2.5 16a4.5 4.5 0 0 1 9 0m1-11.5a2.5 2.5 0 1 1 0 5m1 1.5a4.5 4.5 0 0 1 4 5",
  play: "M7 5v10l8-5z",
  up: "M7 9v7H4V9zm0 0 3-5c1.500 0 2 1 2 2l-.5 3H16l-1.200 7H7",
  down: "M7 11V4H4v7zm0 0 3 5c1.500 0 2-1 2-2l-.5-3H16l-1.200-7H7",
  before: "M6 5v10m8-10-6 5 6 5z",
  after: "M14 5v10M6 5l6 5-6 5z",
  settings: "M4 6h7m4 0h1M4 14h1m4 0h7M13 4v4M7 12v4",
  left: "m12 5-5 5 5 5",
  right: "m8 5 5 5-5 5",
  language: "M10 3a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM3 10h14M10 3c-5 5-5 9 0 14 5-5 5-9 0-14z",
  plug: "M7 3v4m6-4v4M5 7h10v3a5 5 0 0 1-10 0zm5 8v3",
  link: "M8 12l4-4M9 6l2-2a3 3 0 0 1 4.200 4.200l-2 2M11 14l-2 2a3 3 0 0 1-4.200-4.200l2-2",
  me: "M10 4a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM4 17c0-7 12-7 12 0",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 20 20" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
