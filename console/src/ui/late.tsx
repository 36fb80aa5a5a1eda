/**
 * Parts that are loaded when they are needed, and what is shown of one that cannot be: the server is away, or was updated and
 * has other files. A browser may remember that a file was missing, so only loading the whole console again helps.
 */

import type { FunctionComponent, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { linkState } from "../link/socket.ts";
import { reloadOnce } from "../link/worker.ts";
import { words } from "../words/index.ts";
import { Button } from "./button.tsx";
import { Bones, Empty } from "./shown.tsx";
import { toast } from "./toast.tsx";

type Load<P> = () => Promise<{ default: FunctionComponent<P> }>;

/** A page. The console is loaded again as soon as the server answers: nothing that was typed stands on a page that is missing. */
export const latePage = <P extends object>(load: Load<P>): FunctionComponent<P> => late(load, LoadingPage, MissingPage);

/** A part beside or over a page, on which something may have been typed: the user decides when it is loaded again. */
export const latePart = <P extends { onClose: () => void }>(load: Load<P>): FunctionComponent<P> => late(load, Nothing, MissingPart);

function late<P extends object>(load: Load<P>, Loading: FunctionComponent, Missing: FunctionComponent<P>): FunctionComponent<P> {
  let loaded: FunctionComponent<P> | undefined;
  return function Late(props: P): JSX.Element {
    const [isMissing, setMissing] = useState(false);
    const [, draw] = useState(0);
    useEffect(() => {
      if (loaded !== undefined) return;
      let isShown = true;
      load().then(
        (module) => {
          loaded = module.default;
          if (isShown) draw(1);
        },
        () => isShown && setMissing(true),
      );
      return () => {
        isShown = false;
      };
    }, []);
    const Part = loaded ?? (isMissing ? Missing : Loading);
    return <Part {...props} />;
  };
}

const Nothing = (): null => null;

const LoadingPage = (): JSX.Element => <main class="main page"><Bones /></main>;

function MissingPage(): JSX.Element {
  const state = linkState.value;
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  useEffect(() => void reloadOnce(), [state]);
  return (
    <main class="main page">
      <h1 ref={heading} tabIndex={-1}>{words.value.notLoaded}</h1>
      <div role="alert">
        <Empty action={<Button onClick={() => location.reload()}>{words.value.loadAgain}</Button>}>{words.value.partMissing}</Empty>
      </div>
    </main>
  );
}

function MissingPart({ onClose }: { onClose: () => void }): null {
  useEffect(() => {
    toast(words.value.partMissing, { label: words.value.loadAgain, run: () => location.reload() });
    onClose();
  }, []);
  return null;
}
